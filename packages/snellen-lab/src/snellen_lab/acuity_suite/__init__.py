"""The embedded psychometric tests: forced choices at levels along one physical dimension each."""
