#include "reconstruct_impl.hpp"

namespace tacit::app::tomography {

template ReconstructResult reconstruct(const op::Operator<float, Device>&, const layout::Vector<float, Device>&,
                                       layout::Vector<float, Device>&, const ReconstructOptions&);
template ReconstructResult reconstruct(const op::Operator<double, Device>&, const layout::Vector<double, Device>&,
                                       layout::Vector<double, Device>&, const ReconstructOptions&);

}  // namespace tacit::app::tomography
