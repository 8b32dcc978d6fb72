#include "staged_impl.hpp"

namespace tacit::op {

template class StagedMatrix<float, Device>;
template class StagedMatrix<double, Device>;

}  // namespace tacit::op
