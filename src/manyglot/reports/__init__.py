"""What people look at: tables in the terminal, the matrix of directions as a picture, the report as a page."""
