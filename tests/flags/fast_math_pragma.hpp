// In front of everything else: what a user's own header may have set, and left so.
#pragma GCC optimize("fast-math")
