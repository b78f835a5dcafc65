"""Operations on the tasks of users."""
