"""What differs from RecBole's Trainer."""
