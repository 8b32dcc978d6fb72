#include "levels_impl.hpp"

namespace tacit::precond {

template class Levels<float>;
template class Levels<double>;
template class Levels<std::complex<float>>;
template class Levels<std::complex<double>>;

}  // namespace tacit::precond
