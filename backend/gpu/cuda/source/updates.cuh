#ifndef EINLOOM_UPDATES
#define EINLOOM_UPDATES

template <class Target, class Source>
struct Updates {
    Target target;
    Source source;
};

// How updates are placed, and the place of those that are made nowhere.
template <class Axes>
struct Placed : Axes {
    long long beyond;
};

#endif
