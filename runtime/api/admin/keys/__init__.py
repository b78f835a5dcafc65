"""Operations on the keys of users."""
