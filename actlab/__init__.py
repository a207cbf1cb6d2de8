"""actlab: which activation should a Transformer use, at which learning rate, and how sure can we be?"""
