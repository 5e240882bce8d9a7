"""The language codes of published corpora and test sets."""

from __future__ import annotations

from pathlib import Path

from manyglot.config.yaml_files import read_yaml_mapping

RECIPES = Path(__file__).parents[2] / "recipes"

_FLORES_200 = """
    ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi apc_Arab arb_Arab arb_Latn ars_Arab
    ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn bak_Cyrl bam_Latn ban_Latn bel_Cyrl bem_Latn
    ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn cjk_Latn ckb_Arab
    crh_Latn cym_Latn dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn epo_Latn est_Latn eus_Latn ewe_Latn
    fao_Latn fij_Latn fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn gle_Latn glg_Latn grn_Latn guj_Gujr hat_Latn
    hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn
    jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda kas_Arab kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn kea_Latn
    khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn kmr_Latn kon_Latn kor_Hang lao_Laoo lij_Latn lim_Latn lin_Latn lit_Latn
    lmo_Latn ltg_Latn ltz_Latn lua_Latn lug_Latn luo_Latn lus_Latn lvs_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Arab
    min_Latn mkd_Cyrl plt_Latn mlt_Latn mni_Beng khk_Cyrl mos_Latn mri_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva
    nso_Latn nus_Latn nya_Latn oci_Latn gaz_Latn ory_Orya pag_Latn pan_Guru pap_Latn pes_Arab pol_Latn por_Latn prs_Arab
    pbt_Arab quy_Latn ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Olck scn_Latn shn_Mymr sin_Sinh slk_Latn slv_Latn
    smo_Latn sna_Latn snd_Arab som_Latn sot_Latn spa_Latn als_Latn srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn
    szl_Latn tam_Taml tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi taq_Latn taq_Tfng tpi_Latn tsn_Latn tso_Latn
    tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn urd_Arab uzn_Latn vec_Latn vie_Latn war_Latn
    wol_Latn xho_Latn ydd_Hebr yor_Latn yue_Hant zho_Hans zho_Hant zsm_Latn zul_Latn
"""
_ONLY_IN_FLORES_200 = (
    "ajp_Arab aka_Latn apc_Arab est_Latn grn_Latn kon_Latn tgl_Latn twi_Latn tzm_Tfng zho_Hans zho_Hant"
)
_ONLY_IN_FLORES_PLUS = """
    apc_Arab_nort3139 apc_Arab_sout3123 arg_Latn brx_Deva cat_Latn_vale1252 chv_Cyrl cmn_Hans cmn_Hant dar_Cyrl dgo_Deva
    ekk_Latn fil_Latn gom_Deva gug_Latn kaa_Latn khk_Mong ktu_Latn lld_Latn lld_Latn_gard1241 mhr_Cyrl mni_Mtei myv_Cyrl
    nob_Latn_radical nqo_Nkoo oci_Latn_aran1260 snd_Deva twi_Latn_akua1239 twi_Latn_asan1239 tyv_Cyrl udm_Cyrl uzs_Arab
    vmw_Latn wuu_Hans zgh_Tfng
"""
_NTREX_128 = """
    afr amh arb aze-Latn bak bel bem ben bod bos bul cat ces ckb-Arab cym dan deu div dzo ell eng eng-GB eng-IN eng-US
    est eus ewe fao fas fij fil fin fra fra-CA fuc gle glg guj hau heb hin hmn hrv hun hye ibo ind isl ita jpn kan kat
    kaz khm kin kir kmr kor lao lav lit ltz mal mar mey mkd mlg mlt mon mri msa mya nde nep nld nno nob nso nya orm pan
    pol por por-BR prs pus ron rus shi sin slk slv smo sna-Latn snd-Arab som spa spa-MX sqi srp-Cyrl srp-Latn ssw swa
    swe tah tam tat tel tgk-Cyrl tha tir ton tsn tuk tur uig ukr urd uzb ven vie wol xho yor yue zho-CN zho-TW zul
"""
FLORES_200, NTREX_128 = _FLORES_200.split(), _NTREX_128.split()
FLORES_PLUS = sorted({*FLORES_200, *_ONLY_IN_FLORES_PLUS.split()} - set(_ONLY_IN_FLORES_200.split()))


def _recipe_languages(name: str) -> list[str]:
    languages: list[str] = read_yaml_mapping(RECIPES / f"{name}.yaml")["corpus"]["languages"]
    return languages


OPUS_100, TED_59 = _recipe_languages("opus100"), _recipe_languages("ted59")
CODE_LISTS = {
    "FLORES-200": FLORES_200,
    "FLORES+": FLORES_PLUS,
    "NTREX-128": NTREX_128,
    "OPUS-100": OPUS_100,
    "TED-59": TED_59,
}
