"""Operations on the SQL tables of users."""
