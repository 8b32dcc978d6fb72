#include "hierarchy.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/model/machine.hpp>

#include <algorithm>
#include <cmath>

namespace tacit::precond::mg {
namespace {

// Pairs of cells along an axis, the last of an odd number in a triple; cells end at the cuts.
struct Coarsening {
  std::vector<Local> parent;
  std::vector<double> faces;
};
Coarsening pairs(const op::Domain& d, int axis, const std::vector<Global>& cuts, bool coarsen) {
  Coarsening c;
  const auto& faces = d.faces[std::size_t(axis)];
  c.faces.push_back(faces.front());
  Local next = 0;
  const auto close = [&](Global end) { c.faces.push_back(faces[std::size_t(end)]), ++next; };
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
    const Global lo = cuts[s], hi = cuts[s + 1];
    for (Global i = lo; i < hi;) {
      const Global n = !coarsen || hi - i == 1 ? 1 : hi - i == 3 ? 3 : 2;
      for (Global k = 0; k < n; ++k) c.parent.push_back(next);
      i += n;
      close(i);
    }
  }
  return c;
}

Global least_segment(const std::vector<Global>& cuts) {
  Global least = cuts.back();
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) least = std::min(least, cuts[s + 1] - cuts[s]);
  return least;
}

template <class S>
LastLevel<S> last_level(const std::shared_ptr<const op::FiniteVolume<S>>& A) {
  LastLevel<S> level{A, [A] { return A->rows(); }, A->boxes().ranks_in_use()};
  level.alone = [A] { return std::shared_ptr<const op::Operator<S, Host>>(A->alone()); };
  level.hermitian = A->is_symmetric(), level.constants = A->singular();
  return level;
}

}  // namespace

template <class S>
Move<S>::Move(const op::Boxes& from, const op::Boxes& to) {
  const auto& space = from.space();
  std::vector<Global> needed;
  std::vector<std::pair<Global, Local>> wanted;
  for (std::size_t p = 0; p < to.count(); ++p) {
    const op::CellBox& b = to.own(p);
    Local i = to.offset(p);
    for (Global z = b.lower[2]; z < b.upper[2]; ++z)
      for (Global y = b.lower[1]; y < b.upper[1]; ++y)
        for (Global x = b.lower[0]; x < b.upper[0]; ++x, ++i) {
          const Global at = from.index({x, y, z});
          if (at >= space.begin() && at < space.end()) own_.emplace_back(Local(at - space.begin()), i);
          else needed.push_back(at), wanted.emplace_back(at, i);
        }
  }
  std::sort(needed.begin(), needed.end());
  std::sort(wanted.begin(), wanted.end());
  for (std::size_t g = 0; g < wanted.size(); ++g) ghost_.emplace_back(Local(g), wanted[g].second);
  pattern_ =
      std::make_shared<const comm::Pattern>(comm::Pattern::build(space.comm(), space.partition().offsets(), needed));
  exchange_ = std::make_shared<comm::Exchange>(space.comm(), pattern_, sizeof(S));
}

template <class S>
void Move<S>::forward(std::span<const S> from, std::span<S> to) {
  const int number = exchange_->open();
  S* const out = reinterpret_cast<S*>(exchange_->outgoing(number));
  for (std::size_t i = 0; i < pattern_->send_index.size(); ++i) out[i] = from[std::size_t(pattern_->send_index[i])];
  exchange_->post(number);
  for (const auto& [a, b] : own_) to[std::size_t(b)] = from[std::size_t(a)];
  exchange_->wait(number);
  const S* const in = reinterpret_cast<const S*>(exchange_->incoming(number));
  for (const auto& [g, b] : ghost_) to[std::size_t(b)] = in[g];
  exchange_->close(number);
}

template <class S>
void Move<S>::backward(std::span<const S> to, std::span<S> from) {
  const int number = exchange_->open(false);
  S* const out = reinterpret_cast<S*>(exchange_->outgoing(number));
  for (const auto& [g, b] : ghost_) out[g] = to[std::size_t(b)];
  exchange_->post(number);
  for (const auto& [a, b] : own_) from[std::size_t(a)] = to[std::size_t(b)];
  exchange_->wait(number);
  const S* const in = reinterpret_cast<const S*>(exchange_->incoming(number));
  for (std::size_t i = 0; i < pattern_->send_index.size(); ++i) from[std::size_t(pattern_->send_index[i])] = in[i];
  exchange_->close(number);
}

template <class S>
CellCopies Move<S>::copies(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to) const {
  CellCopies c;
  c.exchange = exchange_;
  for (const auto& [a, b] : own_) c.own.push_back(to[std::size_t(b)]), c.own.push_back(from[std::size_t(a)]);
  for (const Local i : pattern_->send_index) c.sent.push_back(from[std::size_t(i)]);
  for (const auto& [g, b] : ghost_) c.received.push_back(to[std::size_t(b)]), c.received.push_back(g);
  return c;
}

namespace {

template <class S>
Ways ways_of(const op::FiniteVolume<S>& A, const MultigridOptions& options) {
  const bool fourth = A.stencil() == op::CellStencil::fourth_order;
  Ways ways;
  ways.interpolation = options.interpolation.value_or(fourth ? Interpolation::quadratic : Interpolation::constant);
  ways.restriction = options.restriction;
  ways.full = options.full_interpolation.value_or(fourth ? Interpolation::quartic : Interpolation::linear);
  const bool high = ways.interpolation > Interpolation::linear || ways.restriction > Interpolation::constant ||
                    ways.full > Interpolation::linear;
  require(!high || A.boxes().is_whole(),
          "interpolation of a higher order than linear, and restriction other than by sums, need all cells of a "
          "rectangle; some are not there");
  return ways;
}

/// The axes along which pairs of cells are joined: the boxes allow it, and cells are not much wider than along another.
std::array<bool, 3> coarsenable(const op::Boxes& boxes, Global smallest) {
  const op::Domain& d = boxes.domain();
  std::array<bool, 3> can{};
  double finest = INFINITY;
  const auto width = [&](int a) {
    return (d.faces[std::size_t(a)].back() - d.faces[std::size_t(a)].front()) / double(d.cells(a));
  };
  for (int a = 0; a < d.dimensions; ++a) {
    can[std::size_t(a)] = least_segment(boxes.cuts(a)) >= 2 * smallest;
    if (can[std::size_t(a)]) finest = std::min(finest, width(a));
  }
  for (int a = 0; a < d.dimensions; ++a) can[std::size_t(a)] = can[std::size_t(a)] && width(a) <= 1.5 * finest;
  return can;
}

/// Whether it is the ends of boxes that prevent coarsening, and not that nothing is left to join.
bool could_be_joined(const op::Boxes& boxes, Global smallest) {
  bool could = false;
  for (int a = 0; a < boxes.domain().dimensions; ++a) could = could || boxes.domain().cells(a) >= 2 * smallest;
  return could && boxes.ranks_in_use() > 1;
}

/// The domain with pairs of cells joined along these axes.
op::Domain paired(const op::Boxes& boxes, const std::array<bool, 3>& along, std::array<std::vector<Local>, 3>& parent) {
  op::Domain coarse = boxes.domain();
  for (int a = 0; a < 3; ++a) {
    auto c = pairs(boxes.domain(), a, boxes.cuts(a), along[std::size_t(a)]);
    parent[std::size_t(a)] = std::move(c.parent);
    coarse.faces[std::size_t(a)] = std::move(c.faces);
  }
  return coarse;
}

/// The boxes of rank r move to rank r / by; `by` grows from `factor` until fewer ranks are in use.
op::Boxes on_fewer_ranks(const op::Boxes& boxes, int factor) {
  for (int by = factor;; by *= 2) {
    op::Boxes moved = boxes.gathered(by);
    if (moved.ranks_in_use() != boxes.ranks_in_use() || by > boxes.space().comm().size()) return moved;
  }
}

}  // namespace

template <class S>
Hierarchy<S>::Hierarchy(std::shared_ptr<const op::FiniteVolume<S>> A, const MultigridOptions& options,
                        const MakeBottom<S>& make, bool slabs)
    : options_(options) {
  const bool truncated = options.cycle == Cycle::u;
  const Global smallest = options.smallest_box.value_or(truncated ? 4 : 2);
  Global below = options.agglomerate_below.value_or(truncated ? 0 : 4096);
  const bool constant = options.smoother == Smoother::gauss_seidel;
  const Ways ways = ways_of(*A, options);
  options_.interpolation = ways.interpolation, options_.full_interpolation = ways.full;
  stages_.push_back({make_level<S>(A, constant, slabs), nullptr, nullptr, {}, {}});
  op::Boxes boxes = below > 0 ? A->boxes().gathered(1) : A->boxes();
  bool asked = false;
  while (options.levels == 0 || int(stages_.size()) < options.levels) {
    const auto can = coarsenable(boxes, smallest);
    const bool any = can[0] || can[1] || can[2];
    Stage& stage = stages_.back();
    if (!any && (below == 0 || !could_be_joined(boxes, smallest))) break;
    std::array<std::vector<Local>, 3> parent;
    op::Boxes next = boxes.coarsened(paired(boxes, can, parent), parent, below == 0);
    auto B = std::shared_ptr<const op::FiniteVolume<S>>(A->coarsened(next, parent));
    int factor = 1, ranks = next.ranks_in_use();
    if (below > 0)
      while ((ranks + factor - 1) / factor > 1 && next.cells() < below * ((ranks + factor - 1) / factor)) factor *= 2;
    if (!any) factor = std::max(factor, 2);
    if (factor > 1 && options.agglomerates && !options.agglomerate_below && !asked) {
      asked = true;
      Global least = 1;
      for (int a = 0; a < next.domain().dimensions; ++a) least = std::max(least, least_segment(next.cuts(a)));
      // Without coarsening there is nothing to be gained on this level.
      if (!moves(*B, (ranks + factor - 1) / factor, least, smallest)) {
        below = 0, factor = 1;
        if (!any) break;
      }
    }
    auto level = make_level<S>(B, constant, slabs);
    if (factor > 1) {
      const op::Boxes moved = on_fewer_ranks(next, factor);
      auto C = std::shared_ptr<const op::FiniteVolume<S>>(B->moved(moved));
      stage.level->connect(level.get(), std::move(parent), ways);
      stage.image = std::move(level);
      stage.move = std::make_unique<Move<S>>(next, moved);
      stage.before.resize(std::size_t(next.space().local_size()));
      stage.after.resize(std::size_t(moved.space().local_size()));
      level = make_level<S>(C, constant, slabs);
      A = C, boxes = moved;
    } else {
      stage.level->connect(level.get(), std::move(parent), ways);
      A = B, boxes = next;
    }
    stages_.push_back({std::move(level), nullptr, nullptr, {}, {}});
  }
  if (make) {
    bottom_ = make(last_level(A));
    bottom_f_ = std::make_unique<layout::Vector<S>>(A->range());
    bottom_u_ = std::make_unique<layout::Vector<S>>(A->range());
  }
}

template <class S>
bool Hierarchy<S>::moves(const op::FiniteVolume<S>& A, int fewer, Global least_box, Global smallest) {
  const auto& comm = A.range().comm();
  const op::Domain& d = A.boxes().domain();
  const auto machine = model::measure(comm);
  Fork fork;
  fork.dimensions = d.dimensions;
  for (int a = 0; a < 3; ++a) fork.cells[std::size_t(a)] = d.cells(a);
  fork.ranks = A.boxes().ranks_in_use(), fork.fewer = fewer;
  fork.least_box = least_box, fork.smallest_box = smallest;
  fork.sweeps = options_.pre + options_.post, fork.number_bytes = sizeof(S);
  fork.sum = machine.sum_latency, fork.bandwidth = machine.bandwidth;
  const auto products = measured_products<S>(A);
  fork.product = products[0], fork.pair = products[1];
  const ForkChoice choice = options_.agglomerates(fork);
  fork_ = choice.why;
  return choice.move;
}

template <class S>
std::string Hierarchy<S>::choice() const {
  const std::string bottom = bottom_ ? bottom_->choice() : std::string();
  return fork_ + (fork_.empty() || bottom.empty() ? "" : "; ") + bottom;
}

template <class S>
std::string Hierarchy<S>::bottom_name() const {
  return bottom_ ? bottom_->name() : "smoother";
}

template <class S>
std::vector<LevelReport> Hierarchy<S>::take() {
  std::vector<LevelReport> all;
  for (Stage& s : stages_) {
    LevelReport& r = s.level->report;
    if (s.image) {
      auto& i = s.image->report;
      r.exchange += i.exchange, r.exchanges += i.exchanges;
      i.exchange = 0, i.exchanges = 0;
    }
    all.push_back(r);
    LevelReport zero;
    zero.cells = r.cells, zero.boxes = r.boxes, zero.ranks = r.ranks;
    r = zero;
  }
  return all;
}

template <class S>
void Hierarchy<S>::smooth(Level<S>& level, int sweeps, bool from_zero, bool mirrored) {
  if (options_.smoother != Smoother::gauss_seidel) return level.smooth_whole(options_, sweeps, from_zero);
  std::vector<Step> steps;
  if (from_zero && (sweeps == 0 || !level.vanishes())) level.clear_u();
  for (int i = 0; i < 2 * sweeps; ++i)
    steps.push_back({from_zero && i == 0 && level.vanishes() ? Work::first_relax : Work::relax, (i + mirrored) % 2});
  while (!steps.empty()) {  // a pass holds up to 24 steps
    const std::size_t now = std::min<std::size_t>(24, steps.size());
    level.run({steps.data(), now});
    steps.erase(steps.begin(), steps.begin() + std::ptrdiff_t(now));
  }
}

template <class S>
void Hierarchy<S>::down(std::size_t i, bool from_zero) {
  Level<S>& level = *stages_[i].level;
  if (options_.smoother != Smoother::gauss_seidel || options_.pre == 0 || options_.pre > 10 ||
      level.restricts_apart()) {
    smooth(level, options_.pre, from_zero, false);
    const Step whole[] = {{Work::restriction, -1}};
    if (level.restricts_apart()) level.restrict_residual();
    else level.run(whole);
  } else {
    if (from_zero && !level.vanishes()) level.clear_u();
    std::vector<Step> steps;
    for (int s = 0; s < 2 * options_.pre; ++s)
      steps.push_back({from_zero && s == 0 && level.vanishes() ? Work::first_relax : Work::relax, s % 2});
    // The residual is zero at the cells of the last half sweep.
    steps.push_back({Work::restriction, level.vanishes() ? 0 : -1});
    level.run(steps);
  }
  f_to_next(i);
}

template <class S>
void Hierarchy<S>::up(std::size_t i, bool norm) {
  Level<S>& level = *stages_[i].level;
  u_from_next(i);
  if (level.interpolates_apart()) level.interpolate();
  const int first = options_.symmetric ? 1 : 0;
  std::vector<Step> steps;
  if (options_.smoother != Smoother::gauss_seidel || options_.post == 0 || options_.post > 10) {
    if (!level.interpolates_apart()) steps = {{Work::interpolate, 0}, {Work::interpolate, 1}};
    level.run(steps);
    smooth(level, options_.post, false, options_.symmetric);
    steps = {{Work::norm, -1}};
    if (norm) level.run(steps);
    return;
  }
  if (!level.interpolates_apart()) {
    // The first half sweep does not read the cells that it writes.
    if (!level.vanishes()) steps.push_back({Work::interpolate, first});
    steps.push_back({Work::interpolate, 1 - first});
  }
  for (int s = 0; s < 2 * options_.post; ++s) steps.push_back({Work::relax, (s + first) % 2});
  if (norm) steps.push_back({Work::norm, level.vanishes() ? first : -1});
  level.run(steps);
}

template <class S>
void Hierarchy<S>::f_to_next(std::size_t i) {
  Stage& s = stages_[i];
  if (!s.move) return;
  const double from = wall_time();
  s.image->store_f(s.before);
  s.move->forward(s.before, s.after);
  stages_[i + 1].level->load_f(s.after);
  s.level->report.move += wall_time() - from;
}

template <class S>
void Hierarchy<S>::u_from_next(std::size_t i) {
  Stage& s = stages_[i];
  if (!s.move) return;
  const double from = wall_time();
  stages_[i + 1].level->store_u(s.after);
  s.move->backward(s.after, s.before);
  s.image->load_u(s.before);
  s.level->report.move += wall_time() - from;
}

template <class S>
void Hierarchy<S>::remove_mean(layout::Vector<S>& v) const {
  double sum = 0;
  for (std::size_t i = 0; i < v.size(); ++i) sum += double(v.data()[i]);
  v.space().start_sum(&sum, 1).wait(&sum);
  const S mean = S(sum / double(v.space().size()));
  for (std::size_t i = 0; i < v.size(); ++i) v.data()[i] -= mean;
}

template <class S>
void Hierarchy<S>::solve_bottom() {
  Level<S>& level = *stages_.back().level;
  const double from = wall_time();
  const Span span("bottom", "multigrid");
  if (!bottom_) {
    smooth(level, smoother_sweeps, true, false);
    bottom.add({true, smoother_sweeps, {}});
  } else {
    auto &f = *bottom_f_, &u = *bottom_u_;
    level.store_f({f.data(), f.size()});
    if (level.A().singular()) remove_mean(f);
    layout::fill(u, S(0));
    const BottomOutcome outcome = bottom_->solve(f, u);
    bottom.add(outcome);
    if (level.A().singular()) remove_mean(u);
    if (outcome.solved) {
      level.load_u({u.data(), u.size()});
    } else {
      const bool finite = std::isfinite(layout::norm(u));
      if (finite) level.load_u({u.data(), u.size()});
      smooth(level, smoother_sweeps, !finite, false);
    }
  }
  level.report.bottom += wall_time() - from;
}

template <class S>
void Hierarchy<S>::solve_last(bool, bool norm) {
  solve_bottom();  // where it is the finest level too: for a correction to u
  if (!norm) return;
  const Step steps[] = {{Work::norm, -1}};
  finest().run(steps);
}

template <class S>
void Hierarchy<S>::restrict_f(std::size_t i) {
  stages_[i].level->restrict_f();
  f_to_next(i);
}

template <class S>
void Hierarchy<S>::interpolate_u(std::size_t i) {
  u_from_next(i);
  stages_[i].level->interpolate_solution();
}

template class Move<float>;
template class Move<double>;
template class Hierarchy<float>;
template class Hierarchy<double>;

}  // namespace tacit::precond::mg
