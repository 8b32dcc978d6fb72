#include "make_impl.hpp"

#include <vector>

namespace tacit::precond {

std::span<const Described> kinds() {
  static constexpr Described all[] = {
#define TACIT_PRECOND(enumerator, name, symmetric, takes, text, source) {name, takes, text, source},
#include <tacit/precond/preconds.def>
#undef TACIT_PRECOND
  };
  return all;
}

std::span<const Option<Options>> options() {
  using O = Options;
  static const std::vector<Option<O>> all{
      option<O>("absolute", &O::absolute, "by the magnitude of the diagonal", "false"),
      option<O>("solver", &O::solver, "of each rank's block", "ilu0"),
      option<O>("blocks", &O::blocks, at_least(1, "block"), "blocks that the rows of a rank are cut into, one a thread",
                "1"),
      option<O>("local", &O::local, "couplings between ranks are dropped: an apply sends nothing", "false"),
      option<O>("kind", &O::kind, "of the polynomial: least error over an interval, or a geometric series",
                "chebyshev"),
      option<O>("degree", &O::degree, at_least(0, "product"), "products with A in an apply", "4"),
      option<O>("lambda_min", &O::lambda_min, Range{}, "chebyshev: lower end of the interval of D^-1 A", "estimated"),
      option<O>("lambda_max", &O::lambda_max, Range{}, "chebyshev: upper end of the interval of D^-1 A", "estimated"),
      option<O>("relaxation", &O::relaxation, Range{}, "neumann: omega", "1"),
  };
  return all;
}

bool is_symmetric(std::string_view name, const Options& options) {
  if (options.solver == Kind::spai) return false;
#define TACIT_PRECOND(enumerator, own, symmetric, ...) \
  if (name == own) return symmetric;
#include <tacit/precond/preconds.def>
#undef TACIT_PRECOND
  return false;
}

#define TACIT_INSTANTIATE(T)                                                                               \
  template std::unique_ptr<op::Operator<T, Host>> make<T, Host>(std::string_view, const op::Csr<T, Host>&, \
                                                                const Options&);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::precond
