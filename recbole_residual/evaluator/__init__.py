"""HRLI, HRL2I, MixingRatio and RecoveryRate in RecBole's evaluator."""
