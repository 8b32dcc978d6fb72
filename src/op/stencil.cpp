#include "recurrence_impl.hpp"
#include "stencil_impl.hpp"
#include "wavefront.hpp"

#include <tacit/base/trace.hpp>

namespace tacit::op {
using namespace stencils;

Grid::Grid(std::vector<Global> n, std::vector<Boundary> b) : dimensions(int(n.size())) {
  require(n.size() >= 1 && n.size() <= 3, "a grid of ", n.size(), " dimensions; 1 to 3 are known");
  require(b.size() == n.size(), "a grid of ", n.size(), " dimensions was given ", b.size(), " boundaries");
  Global all = 1;
  for (std::size_t axis = 0; axis < n.size(); ++axis) {
    require(n[axis] >= 1, "a grid with ", n[axis], " points along axis ", axis);
    require(n[axis] <= (Global(1) << 62) / all, "a grid of more than 2^62 points");
    all *= n[axis];
    points[axis] = n[axis];
    boundary[axis] = b[axis];
  }
}

Grid::Grid(std::vector<Global> n, Boundary everywhere) : Grid(n, std::vector<Boundary>(n.size(), everywhere)) {}

layout::Partition Grid::slabs(int parts) const {
  const auto of_slabs = layout::Partition::blocks(points[std::size_t(dimensions) - 1], parts);
  std::vector<Global> offsets;
  for (Global o : of_slabs.offsets()) offsets.push_back(o * slab());
  return layout::Partition(std::move(offsets));
}

template <Scalar T>
Weights<T> Weights<T>::of(T center, T face, T edge, T corner) {
  const T kinds[4] = {center, face, edge, corner};
  Weights w;
  for (int dz = -1; dz <= 1; ++dz)
    for (int dy = -1; dy <= 1; ++dy)
      for (int dx = -1; dx <= 1; ++dx) w.at(dx, dy, dz) = kinds[(dx != 0) + (dy != 0) + (dz != 0)];
  return w;
}

namespace {
void check_dimensions(int dimensions) {
  require(dimensions >= 1 && dimensions <= 3, "a stencil of ", dimensions, " dimensions; 1 to 3 are known");
}
template <Scalar T>
void add(Weights<T>& w, int axis, int step, double v) {
  w.at(axis == 0 ? step : 0, axis == 1 ? step : 0, axis == 2 ? step : 0) += T(real_t<T>(v));
}
}  // namespace

template <Scalar T>
Weights<T> laplacian(int dimensions, std::array<double, 3> h) {
  check_dimensions(dimensions);
  Weights<T> w;
  for (int axis = 0; axis < dimensions; ++axis) {
    const double v = 1 / (h[axis] * h[axis]);
    add(w, axis, -1, -v);
    add(w, axis, 1, -v);
    add(w, axis, 0, 2 * v);
  }
  return w;
}

template <Scalar T>
Weights<T> isotropic_laplacian(int dimensions, double h) {
  check_dimensions(dimensions);
  if (dimensions == 1) return laplacian<T>(1, {h, h, h});
  const auto weights = [&](double center, double face, double edge, double corner, double divisor) {
    const double v = 1 / (divisor * h * h);
    const auto t = [&](double a) { return T(real_t<T>(a * v)); };
    auto w = Weights<T>::of(t(center), t(face), t(edge), t(corner));
    for (int i = 0; dimensions == 2 && i < 9; ++i) w.value[i] = w.value[18 + i] = T(0);
    return w;
  };
  return dimensions == 2 ? weights(20, -4, -1, 0, 6) : weights(128, -14, -3, -1, 30);
}

template <Scalar T>
Weights<T> convection(int dimensions, std::array<double, 3> velocity, Convection how, std::array<double, 3> h) {
  check_dimensions(dimensions);
  Weights<T> w;
  for (int axis = 0; axis < dimensions; ++axis) {
    const double v = velocity[axis] / h[axis];
    if (how == Convection::central) {
      add(w, axis, -1, -v / 2);
      add(w, axis, 1, v / 2);
    } else {
      add(w, axis, v > 0 ? -1 : 1, -std::abs(v));
      add(w, axis, 0, std::abs(v));
    }
  }
  return w;
}

template <Scalar T>
Rows<T> stencil_rows(const Grid& grid, const Weights<T>& weights, Global begin, Global end) {
  require(begin >= 0 && begin <= end && end <= grid.size(), "rows ", begin, " to ", end, " of a grid of ", grid.size(),
          " points");
  const Axes axes(grid);
  const Coefficients<T> c(axes, weights, false);
  Rows<T> rows;
  rows.start.reserve(std::size_t(end - begin) + 1);
  std::vector<std::pair<Global, T>> row;
  for (Global i = begin; i < end; ++i) {
    row.clear();
    each_entry(axes, c, i % axes.n[0], i / axes.n[0] % axes.n[1], i / axes.n[0] / axes.n[1],
               [&](Global column, T value) { row.emplace_back(column, value); });
    std::stable_sort(row.begin(), row.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t e = 0; e < row.size(); ++e) {
      if (e > 0 && row[e].first == row[e - 1].first) {
        rows.value.back() += row[e].second;
      } else {
        rows.column.push_back(row[e].first);
        rows.value.push_back(row[e].second);
      }
    }
    rows.start.push_back(Global(rows.column.size()));
  }
  return rows;
}

namespace {

/// This rank's slabs of a grid, and those that they need of other ranks.
Part own_part(const Space& space, const Grid& grid, const Axes& axes, std::vector<Global>& ghost_slabs) {
  const Global slab = grid.slab();
  const Global first = space.begin() / slab, last = space.end() / slab;
  const bool on_line = grid.dimensions == 1;
  Part part{axes, on_line, 0, 0, 0, 0, 0, {}, {}};
  (on_line ? part.x0 : part.z0) = first;
  part.nx = std::ptrdiff_t(on_line ? last - first : axes.n[0]);
  part.ny = std::ptrdiff_t(axes.n[1]);
  part.nz = std::ptrdiff_t(on_line ? last > first : last - first);
  if (last > first) {
    const int axis = on_line ? 0 : 2;
    const Global below = axes.neighbour(axis, first, -1), above = axes.neighbour(axis, last - 1, 1);
    const auto outside = [&](Global s) { return s >= 0 && (s < first || s >= last); };
    for (Global s : {below, above})
      if (outside(s)) ghost_slabs.push_back(s);
    std::sort(ghost_slabs.begin(), ghost_slabs.end());
    ghost_slabs.erase(std::unique(ghost_slabs.begin(), ghost_slabs.end()), ghost_slabs.end());
    const auto beyond = [&](Global s) -> Part::Beyond {
      if (s < 0) return {};
      if (!outside(s)) return {Part::Where::own, std::ptrdiff_t(s - first)};
      return {Part::Where::ghost, std::lower_bound(ghost_slabs.begin(), ghost_slabs.end(), s) - ghost_slabs.begin()};
    };
    part.below = beyond(below);
    part.above = beyond(above);
  }
  return part;
}

}  // namespace

template <Scalar T>
Stencil<T>::Stencil(comm::Communicator comm, const Grid& grid, const Weights<T>& weights)
    : Stencil(Space::distributed(comm, grid.slabs(comm.size())), grid, weights) {}

template <Scalar T>
Stencil<T>::Stencil(Space space, const Grid& grid, const Weights<T>& weights)
    : Operator<T, Host>(space, space), grid_(grid), weights_(weights) {
  const auto& comm = space.comm();
  comm::collective(comm, [&] {
    require(!space.is_replicated(), "a stencil works on distributed spaces");
    require(space.size() == grid.size(), "a stencil on ", grid.size(), " points over a space of ", space.size());
    const Global slab = grid.slab();
    for (Global o : space.partition().offsets())
      require(o % slab == 0, "a stencil's ranks own whole slabs of ", slab, " points; a rank begins at ", o);

    const Axes axes(grid);
    std::vector<Global> ghost_slabs, needed;
    const Part part = own_part(space, grid, axes, ghost_slabs);
    for (Global s : ghost_slabs)
      for (Global i = 0; i < slab; ++i) needed.push_back(s * slab + i);

    parts_.reset(new Parts{
        part, Coefficients<T>(axes, weights, false), true, {}, {}, {}, {}, {}, part.nz, 0, part.nz, {}, 0, nullptr});
    Parts& p = *parts_;
    if (part.below.where == Part::Where::ghost) p.lowest_inner = 1;
    if (part.above.where == Part::Where::ghost) p.highest_inner = std::max(p.lowest_inner, part.nz - 1);
    if (p.lowest_inner > p.highest_inner) p.lowest_inner = p.highest_inner;
    if constexpr (is_complex<T>)
      for (const T& v : weights.value) p.real_weights &= v.imag() == 0;
    int of_point = 1;
    for (int axis = 0; axis < grid.dimensions; ++axis) of_point = p.forward.star() ? of_point + 2 : of_point * 3;
    // A complex number times a real one: two products and two sums.
    p.operations = of_point * (!is_complex<T> ? 2 : p.real_weights ? 4 : 8);
    const Coefficients<T> backward(axes, weights, true);
    for (bool adjoint : {false, true}) {
      const auto& c = adjoint ? backward : p.forward;
      if (p.real_weights) p.real_kernel[adjoint] = std::make_unique<Kernel<real_t<T>>>(part, c);
      else p.kernel[adjoint] = std::make_unique<Kernel<T>>(part, c);
    }
    p.pattern = std::make_shared<const comm::Pattern>(
        comm::Pattern::build(comm, space.partition().offsets(), std::move(needed)));

    // All values of entries already occur on a grid with at most four points along each axis.
    Grid small = grid;
    for (Global& n : small.points) n = std::min<Global>(n, 4);
    const Rows<T> rows = stencil_rows(small, weights, 0, small.size());
    for (const T& v : rows.value) {
      largest_ = std::max({largest_, double(std::abs(std::real(v))), double(std::abs(std::imag(v)))});
      if (!is_finite(v)) fault_ = "the stencil has a weight that is not finite";
    }
  });
}

template <Scalar T>
std::shared_ptr<const Operator<in_double_t<T>, Host>> Stencil<T>::in_double() const {
  if constexpr (std::same_as<real_t<T>, float>) {
    Weights<in_double_t<T>> wider;
    for (std::size_t i = 0; i < wider.value.size(); ++i) wider.value[i] = in_double_t<T>(weights_.value[i]);
    return std::make_shared<const Stencil<in_double_t<T>>>(this->range(), grid_, wider);
  } else {
    return nullptr;
  }
}

template <Scalar T>
Stencil<T>::~Stencil() = default;

template <Scalar T>
comm::Exchange& Stencil<T>::exchange(int columns) const {
  auto& e = parts_->exchanges[columns];
  if (!e) e = std::make_unique<comm::Exchange>(this->domain().comm(), parts_->pattern, sizeof(T) * columns);
  return *e;
}

template <Scalar T>
int Stencil<T>::begin(const Vector<T, Host>& x, Vector<T, Host>&, bool) const {
  if (this->domain().comm().size() == 1) return -1;
  auto& e = exchange(x.columns());
  const int token = e.open();
  e.post(token, x.data());
  return token;
}

template <Scalar T>
void Stencil<T>::abandon(int token) const noexcept {
  for (const auto& [columns, e] : parts_->exchanges)
    if (e) e->abandon(token);
}

template <Scalar T>
void Stencil<T>::finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int token) const {
  const auto& comm = this->domain().comm();
  const Parts& p = *parts_;
  const int k = x.columns();
  const Span span(adjoint ? "stencil adjoint" : "stencil product", "op",
                  Trace::on() ? std::int64_t(cost().bytes) * k : 0);
  if (token < 0) return p.run(x.data(), nullptr, y.data(), k, adjoint, 0, p.slabs, comm);
  auto& e = exchange(k);
  const Tuner::Clock clock(this->has_schedules() && !adjoint && !exec::Tasks::current() ? &parts_->tuners[k] : nullptr,
                           this->schedule(), comm.has_threads() ? this->range().local_size() : 0);
  const auto how = clock.runs() ? clock.schedule().how : Schedule::How::overlapped;
  if (how == Schedule::How::split || how == Schedule::How::jobs) {
    const T* const in = reinterpret_cast<const T*>(e.incoming(token));
    p.with_kernel(
        x.data(), in, y.data(), k, adjoint,
        [&](const auto& kernel, const auto* from, const auto* ghosts, auto* to, std::ptrdiff_t columns) {
          kernel.prepare(columns);
          const auto lines = [&](std::ptrdiff_t first_slab) {
            return [&, first = first_slab * p.part.ny](std::size_t a, std::size_t b) {
              kernel.run_lines(from, ghosts, to, columns, first + std::ptrdiff_t(a), first + std::ptrdiff_t(b));
            };
          };
          Pieces pieces;
          pieces.rows_of_unit = pieces.rows_of_remote = double(p.part.nx);
          pieces.interior = std::size_t((p.highest_inner - p.lowest_inner) * p.part.ny);
          pieces.run_interior = lines(p.lowest_inner);
          const auto remote = [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
            if (begin == end) return;
            std::vector<int> needs;
            const auto need = [&](const Part::Beyond& beyond) {
              if (beyond.where != Part::Where::ghost) return;
              const auto& offsets = p.pattern->receive_offsets;
              const Local at = Local(beyond.slab * p.part.nx * p.part.ny);
              const int neighbour = int(std::upper_bound(offsets.begin(), offsets.end(), at) - offsets.begin()) - 1;
              if (std::find(needs.begin(), needs.end(), neighbour) == needs.end()) needs.push_back(neighbour);
            };
            if (begin == 0) need(p.part.below);
            if (end == p.slabs) need(p.part.above);
            pieces.remote.push_back({std::size_t((end - begin) * p.part.ny), needs, lines(begin)});
          };
          remote(0, p.lowest_inner);
          remote(p.highest_inner, p.slabs);
          run_scheduled(clock.schedule(), e, token, pieces);
        });
    e.close(token);
    return;
  }
  if (how == Schedule::How::synchronous) e.wait(token);
  p.run(x.data(), nullptr, y.data(), k, adjoint, p.lowest_inner, p.highest_inner, comm);
  e.wait(token);
  const T* const ghosts = reinterpret_cast<const T*>(e.incoming(token));
  p.run(x.data(), ghosts, y.data(), k, adjoint, 0, p.lowest_inner, comm);
  p.run(x.data(), ghosts, y.data(), k, adjoint, p.highest_inner, p.slabs, comm);
  e.close(token);
}

template <Scalar T>
void Stencil<T>::powers(std::span<Vector<T, Host>* const> v, std::span<const RecurrenceStep<T>> steps,
                        const Vector<T, Host>* before) const {
  if (grid_.dimensions == 1 || !this->powers_are_local(v, steps, before))
    return Operator<T, Host>::powers(v, steps, before);
  const exec::Tasks::InOrder in_order(true);
  const Parts& p = *parts_;
  const int levels = int(steps.size());
  const Span span("stencil powers", "op", Trace::on() ? std::int64_t(cost().bytes) * levels : 0);
  const std::ptrdiff_t slab = std::ptrdiff_t(grid_.slab()), slabs = p.slabs, lines = p.part.ny;
  // group: the slabs of a block; most: the number of steps that advance together.
  const std::ptrdiff_t group = std::max<std::ptrdiff_t>(1, wave_elements / slab);
  const int blocks = int((slabs + group - 1) / group);
  const std::ptrdiff_t window = (group + 2) * slab * std::ptrdiff_t(sizeof(T));
  const bool periodic = grid_.boundary[std::size_t(grid_.dimensions) - 1] == Boundary::periodic;
  const int most = periodic ? 1 : int(std::clamp<std::ptrdiff_t>(wave_bytes / window - 1, 1, std::max(1, levels)));
  p.with_kernel(nullptr, nullptr, nullptr, 1, false,
                [](const auto& kernel, auto, auto, auto, auto k) { kernel.prepare(k); });
  Needs needs;
  for (int b = 0; b < blocks; ++b) needs.push_back({std::max(b - 1, 0), std::min(b + 2, blocks)});
  for (int first = 0; first < levels; first += most) {
    Wavefront wave(blocks);
    wave.add(needs, std::min(most, levels - first) - 1);
    wave.run(slabs * slab >= parallel_elements, [&](int stage, int b) {
      const int c = first + stage;
      const std::ptrdiff_t from = b * group, to = std::min(from + group, slabs);
      p.with_kernel(v[c]->data(), nullptr, v[c + 1]->data(), 1, false,
                    [&](const auto& kernel, auto x, auto ghosts, auto y, auto k) {
                      kernel.run_lines(x, ghosts, y, k, from * lines, to * lines);
                    });
      const T* const last = c > 0 ? v[c - 1]->data() : before ? before->data() : nullptr;
      extend_rows(steps[std::size_t(c)], last, v[c]->data(), v[c + 1]->data(), from * slab, to * slab);
    });
  }
  const double points = double(slabs * slab) * levels;
  Trace::work("product", 2 * points * sizeof(T), points * p.operations);
}

template <Scalar T>
std::vector<T> Stencil<T>::diagonal() const {
  const Parts& p = *parts_;
  const Axes& axes = p.part.axes;
  std::vector<T> d(std::size_t(this->range().local_size()));
  for (std::size_t r = 0; r < d.size(); ++r) {
    const Global i = this->range().begin() + Global(r);
    each_entry(axes, p.forward, i % axes.n[0], i / axes.n[0] % axes.n[1], i / axes.n[0] / axes.n[1],
               [&](Global column, T value) {
                 if (column == i) d[r] += value;
               });
  }
  return d;
}

template <Scalar T>
Cost Stencil<T>::cost() const {
  const Parts& p = *parts_;
  const double n = double(this->range().local_size());
  Cost c;
  c.flops = n * p.operations;
  c.bytes = 2 * n * sizeof(T);
  c.messages = double(p.pattern->send_ranks.size());
  c.message_bytes = double(p.pattern->send_index.size()) * sizeof(T);
  return c;
}

#define TACIT_INSTANTIATE(T)                                                                        \
  template struct Weights<T>;                                                                       \
  template Weights<T> laplacian<T>(int, std::array<double, 3>);                                     \
  template Weights<T> isotropic_laplacian<T>(int, double);                                          \
  template Weights<T> convection<T>(int, std::array<double, 3>, Convection, std::array<double, 3>); \
  template Rows<T> stencil_rows<T>(const Grid&, const Weights<T>&, Global, Global);                 \
  template class Stencil<T>;
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::op
