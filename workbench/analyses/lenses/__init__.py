"""What does each layer predict, and what does each head and MLP add to it?"""
