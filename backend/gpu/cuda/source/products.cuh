#ifndef EINLOOM_PRODUCTS
#define EINLOOM_PRODUCTS

// Indices of the result, and those that are summed over.
template <class Free, class Summed>
struct Products {
    Free free;
    Summed summed;
};

#endif
