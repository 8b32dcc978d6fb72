#include "level.hpp"

#include "red_black.hpp"
#include "wide_level.hpp"

#include <tacit/base/trace.hpp>

namespace tacit::precond::mg {

template <class S>
Level<S>::Level(std::shared_ptr<const op::FiniteVolume<S>> A) : a_(std::move(A)) {
  const op::Boxes& boxes = a_->boxes();
  for (int a = 0; a < 3; ++a) report.cells[std::size_t(a)] = boxes.domain().cells(a);
  report.boxes = Global(boxes.patches().size());
  report.ranks = boxes.ranks_in_use();
}

template <class S>
void Level<S>::make_maps(const std::array<std::vector<Local>, 3>& parent, const Ways& ways, bool interpolation,
                         bool restriction, bool full, bool sums) {
  const op::Boxes &fine = a_->boxes(), &coarse = coarse_->a_->boxes();
  const auto maps = [&](Interpolation order, bool known) {
    std::array<AxisMap, 3> m;
    for (int a = 0; a < 3; ++a)
      m[std::size_t(a)] = interpolation_map(fine.domain(), coarse.domain(), parent[std::size_t(a)], a, order, known);
    return m;
  };
  const auto adjoint = [&](Interpolation order) {
    auto m = maps(order, true);
    for (int a = 0; a < 3; ++a)
      m[std::size_t(a)] = adjoint_of(m[std::size_t(a)], std::ptrdiff_t(fine.domain().cells(a)),
                                     std::ptrdiff_t(coarse.domain().cells(a)));
    return m;
  };
  const auto make = [](const op::Boxes& from, const op::Boxes& to, std::array<AxisMap, 3> m) {
    return std::make_unique<Transfer<S>>(from, to, std::move(m));
  };
  if (interpolation) interpolation_ = make(coarse, fine, maps(ways.interpolation, true));
  if (restriction) restriction_ = make(fine, coarse, adjoint(ways.restriction));
  if (full) full_ = make(coarse, fine, maps(ways.full, false));
  if (sums) sums_ = make(fine, coarse, adjoint(Interpolation::constant));
  if (!interpolation_ && !restriction_ && !full_ && !sums_) return;
  fine_values_.resize(std::size_t(fine.space().local_size()));
  coarse_values_.resize(std::size_t(coarse.space().local_size()));
}

template <class S>
void Level<S>::interpolate() {
  const Timed timer(report.interpolation);
  const Span span("interpolation", "multigrid");
  coarse_->store_u(coarse_values_);
  interpolation_->apply(coarse_values_.data(), fine_values_.data());
  add_u(fine_values_);
}

template <class S>
void Level<S>::restrict_residual() {
  residual_to(fine_values_);
  const Timed timer(report.residual);
  const Span span("restriction", "multigrid");
  restriction_->apply(fine_values_.data(), coarse_values_.data());
  coarse_->load_f(coarse_values_);
}

template <class S>
void Level<S>::restrict_f() {
  const Timed timer(report.residual);
  store_f(fine_values_);
  sums_->apply(fine_values_.data(), coarse_values_.data());
  coarse_->load_f(coarse_values_);
}

template <class S>
void Level<S>::interpolate_solution() {
  const Timed timer(report.interpolation);
  coarse_->store_u(coarse_values_);
  full_->apply(coarse_values_.data(), fine_values_.data());
  load_u(fine_values_);
}

template <class S>
std::unique_ptr<Level<S>> make_level(std::shared_ptr<const op::FiniteVolume<S>> A, bool red_black, bool slabs) {
  if (A->wide()) return std::make_unique<WideLevel<S>>(std::move(A), !red_black);
  return std::make_unique<RedBlackLevel<S>>(std::move(A), red_black, slabs);
}

template class Level<float>;
template class Level<double>;
template std::unique_ptr<Level<float>> make_level(std::shared_ptr<const op::FiniteVolume<float>>, bool, bool);
template std::unique_ptr<Level<double>> make_level(std::shared_ptr<const op::FiniteVolume<double>>, bool, bool);

}  // namespace tacit::precond::mg
