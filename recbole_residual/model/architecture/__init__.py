"""What RecBole's models are made of, asked by decomposition, evaluator and probes alike.

| file | question |
| --- | --- |
| ``blocks`` | which modules are attention or feed-forward blocks, and where does a branch end? |
| ``layers`` | which blocks are a layer, and what is the layer called? |
| ``residuals`` | what does ``alpha`` scale, and at which ``alpha`` is the model RecBole's? |
| ``stream`` | what does the residual of a block carry? |
| ``gates`` | which GRU stands in the place of attention? |
| ``window`` | which items does the model see, and does it end in [MASK]? |
| ``positions`` | which position is the last one, and which one is the ranking read from? |
| ``score`` | what is a score made of? |
| ``wrappers`` | which model is inside a wrapper, and which block never calls its hooks? |
"""
