"""What every room uses: pictures, paths, seeds, conditions, drafts of questions. No other room is known here."""
