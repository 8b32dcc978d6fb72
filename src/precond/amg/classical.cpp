#include "coarsening.hpp"
#include "interpolation.hpp"

#include <utility>

namespace tacit::precond {
namespace {

using layout::Space;

template <Scalar T>
class Classical final : public Coarsening<T> {
 public:
  Classical(const op::Csr<T>& A, const AmgOptions<T>& options) : options_(options) {
    options_.near_null.clear();
    const Local n = A.range().local_size();
    for (Local i = 0; i < n; ++i) unknown_.push_back(i % options.block);
  }

  std::optional<Coarser<T>> next(const op::Rows<T>& rows, const Space& space, const ByColumn<double>&,
                                 double) override {
    const auto& comm = space.comm();
    const bool is_aggressive = level_++ < options_.aggressive;
    auto kind = kinds_of(rows, space, unknown_);
    const Graph strong = classical_strength(rows, space, kind, options_.strength.value_or(default_strength));
    comm.check_interrupt();
    auto part = options_.coarsening == AmgCoarsening::hmis ? hmis(strong) : pmis(strong);
    if (is_aggressive) part = aggressive(strong, std::move(part));
    const CoarsePoints coarse = number_coarse(strong, part);
    if (coarse.space.size() == 0 || double(coarse.space.size()) > least_coarsening * double(space.size())) return {};
    comm.check_interrupt();
    Coarser<T> found{coarse.space, interpolation({rows, strong, kind, part, coarse}, is_aggressive), {}};
    std::vector<Local> kept;
    for (std::size_t i = 0; i < unknown_.size(); ++i)
      if (part[i] == Part::coarse) kept.push_back(unknown_[i]);
    unknown_ = std::move(kept);
    return found;
  }

  void move(const Gathering& to) override { unknown_ = to.moved(unknown_); }

 private:
  static constexpr double default_strength = 0.25;
  op::Rows<T> interpolation(const Splitting<T>& s, bool is_aggressive) const {
    const int most = options_.p_max.value_or(4);
    if (is_aggressive) return multipass_interpolation(s, most);
    switch (options_.interpolation.value_or(AmgInterpolation::extended_i)) {
      case AmgInterpolation::direct:
        return direct_interpolation(s, most);
      case AmgInterpolation::multipass:
        return multipass_interpolation(s, most);
      default:
        return extended_interpolation(s, most);
    }
  }
  AmgOptions<T> options_;
  std::vector<Local> unknown_;  // the number of each row among those of its node
  int level_ = 0;
};

}  // namespace

template <Scalar T>
std::unique_ptr<Coarsening<T>> make_classical(const op::Csr<T>& A, const AmgOptions<T>& options) {
  return std::make_unique<Classical<T>>(A, options);
}

#define TACIT_INSTANTIATE(T) \
  template std::unique_ptr<Coarsening<T>> make_classical(const op::Csr<T>&, const AmgOptions<T>&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
