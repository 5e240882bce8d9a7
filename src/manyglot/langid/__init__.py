"""Language identification: cleaning, decoding and evaluation all ask here which language a text is in."""
