"""What every room uses: images, paths, seeds, conditions, drafts of questions. No other room is known here."""
