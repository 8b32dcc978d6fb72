#include "reconstruct_impl.hpp"

namespace tacit::app::tomography {

std::span<const Described> methods() {
  static constexpr Described all[] = {
      {"cgls", "reorthogonalise", "min |b - A x| by conjugate gradients",
       "Hestenes, Stiefel (1952), doi 10.6028/jres.049.044"},
      {"sirt", "relaxation nonnegative", "x := x + w C A^T R (b - A x), R and C the inverse sums of rows and columns",
       "Gilbert (1972), doi 10.1016/0022-5193(72)90180-4"}};
  return all;
}

std::span<const Option<ReconstructOptions>> reconstruct_options() {
  using O = ReconstructOptions;
  static const std::vector<Option<O>> all{
      option<O>("iterations", &O::iterations, at_least(0, "iterations"), "at most"),
      option<O>("discrepancy", &O::discrepancy, not_negative(),
                "ends a slice at |b - A x| <= discrepancy: the norm of its noise; 0: not"),
      option<O>("tolerance", &O::tolerance, not_negative(),
                "ends a slice at |A^T (b - A x)| <= tolerance |A^T b|; 0: not"),
      option<O>("l_curve", &O::l_curve,
                "ends a slice when the corner of its L-curve has been passed, with the image at the corner"),
      option<O>("relaxation", &O::relaxation,
                Range{.least = 0, .most = 2, .open_below = true, .open_above = true, .needed = "a number in (0, 2)"},
                "w"),
      option<O>("nonnegative", &O::nonnegative, "no pixel below 0"),
      option<O>("reorthogonalise", &O::reorthogonalise, at_least(0, "gradients"),
                "every gradient is kept orthogonal to the first so many, each of which takes an image's memory; with "
                "none rounding costs an iteration or two in float32, more with 16-bit values or vectors",
                "1; with vectors in 16 bits 5"),
  };
  return all;
}

void check(const ReconstructOptions& o) {
  check_values(reconstruct_options(), o);
  check_taken(reconstruct_options(), o, methods(), to_string(o.method));
}

template ReconstructResult reconstruct(const op::Operator<float, Host>&, const layout::Vector<float, Host>&,
                                       layout::Vector<float, Host>&, const ReconstructOptions&);
template ReconstructResult reconstruct(const op::Operator<double, Host>&, const layout::Vector<double, Host>&,
                                       layout::Vector<double, Host>&, const ReconstructOptions&);

}  // namespace tacit::app::tomography
