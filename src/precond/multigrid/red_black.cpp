#include "passes.hpp"

namespace tacit::precond::mg {

template <class S>
RedBlackLevel<S>::RedBlackLevel(std::shared_ptr<const op::FiniteVolume<S>> A, bool constant_allowed, bool slabs)
    : Level<S>(std::move(A)), dimensions_(a_->boxes().domain().dimensions) {
  const op::Boxes& boxes = a_->boxes();
  const op::Domain& domain = boxes.domain();
  constant_ = constant_allowed && a_->is_constant() && boxes.is_whole();
  for (int axis = 0; axis < dimensions_; ++axis)
    odd_seam_ = odd_seam_ || (domain.periodic(axis) && domain.cells(axis) % 2 == 1 && domain.cells(axis) > 1);
  // The first cells of both halves of every line begin a line of the cache: of what a half sweep reads and writes only
  // neighbours along the line straddle two.
  constexpr std::ptrdiff_t align = 64 / std::ptrdiff_t(sizeof(S));
  const auto whole = [](std::ptrdiff_t n) { return (n + align - 1) / align * align; };
  std::ptrdiff_t size = 2 * align - 1;
  if (slabs) find_slabs();
  const std::ptrdiff_t gy = dimensions_ > 1, gz = slab_ ? Slab::planes : dimensions_ > 2;
  std::size_t lines = 0;
  for (std::size_t i = 0; i < boxes.count(); ++i) {
    Patch p;
    p.box = boxes.own(i);
    for (std::size_t a = 0; a < 3; ++a) {
      p.n[a] = std::ptrdiff_t(p.box.size(int(a)));
      p.wrap[a] = int(a) < dimensions_ && domain.periodic(int(a)) && p.n[a] == domain.cells(int(a)) && p.n[a] % 2 == 0;
    }
    p.parity = int((p.box.lower[0] + p.box.lower[1] + p.box.lower[2]) & 1);
    p.half = whole(p.n[0] / 2 + 1) + 1;
    p.line = whole(p.half + p.n[0] / 2 + 2);
    p.plane = p.line * (p.n[1] + 2 * gy);
    p.offset = size + p.plane * gz + p.line * gy;
    size += p.plane * (p.n[2] + 2 * gz);
    first_line_.push_back(lines);
    lines += std::size_t(p.n[1] * p.n[2]);
    patches_.push_back(std::move(p));
  }
  line_largest_.resize(lines), line_squares_.resize(lines);
  u_ = Field(std::size_t(size)), f_ = Field(std::size_t(size));

  if (constant_) set_constant();
  else set_stored(std::size_t(size));
  find_ghosts();
}

// The offset of a place within its line; cell i is place i + 1.
template <class S>
std::ptrdiff_t RedBlackLevel<S>::place(const Patch& p, std::ptrdiff_t on_line) {
  return (on_line % 2) * p.half + on_line / 2;
}

template <class S>
void RedBlackLevel<S>::set_constant() {
  const op::Domain& domain = a_->boxes().domain();
  double weight[3] = {0, 0, 0};
  for (int axis = 0; axis < dimensions_; ++axis) {
    double c = a_->b() / a_->unit_volume();
    for (int o = 0; o < dimensions_; ++o) c = o == axis ? c / domain.width(o, 0) : c * domain.width(o, 0);
    weight[axis] = op::couples_itself(domain, axis) ? 0 : c;
  }
  weights_ = {S(weight[0]), S(weight[1]), S(weight[2])};
  for (std::size_t i = 0; i < patches_.size(); ++i) {
    Patch& p = patches_[i];
    for (int axis = 0; axis < 3; ++axis) {
      const auto a = std::size_t(axis);
      p.diagonal[a].assign(std::size_t(p.n[a]), S(2 * weight[axis]));
      if (slab_ && axis == 2) p.beyond.assign(std::size_t(2 * Slab::planes), S(2 * weight[axis]));
      if (axis >= dimensions_ || domain.periodic(axis)) continue;
      const auto end = [&](int side) {
        return S(weight[axis] * (domain.boundary[a][std::size_t(side)] == op::Boundary::dirichlet ? 3 : 1));
      };
      if (slab_ && axis == 2) {
        for (std::ptrdiff_t k = 0; k < 2 * Slab::planes; ++k) {
          const Global plane = k < Slab::planes ? p.box.lower[2] + k - Slab::planes : p.box.upper[2] + k - Slab::planes;
          if (plane == 0) p.beyond[std::size_t(k)] = end(0);
          if (plane + 1 == domain.cells(axis)) p.beyond[std::size_t(k)] = end(1);
        }
      }
      if (p.box.lower[a] == 0) p.diagonal[a].front() = end(0);
      if (p.box.upper[a] == domain.cells(axis))
        p.diagonal[a].back() = end(1) + (p.n[a] == 1 && p.box.lower[a] == 0 ? end(0) - S(2 * weight[axis]) : S(0));
    }
    if (!a_->mass().empty()) {
      for (S& d : p.diagonal[2]) d += a_->mass()[0];
      for (S& d : p.beyond) d += a_->mass()[0];
    }
  }
}

template <class S>
void RedBlackLevel<S>::set_stored(std::size_t size) {
  const op::Boxes& boxes = a_->boxes();
  inverse_ = Field(size), cx_ = Field(size);
  if (dimensions_ > 1) cy_ = Field(size);
  if (dimensions_ > 2) cz_ = Field(size);
  std::vector<S> room;
  const auto diagonal = a_->diagonal(room);
  for (std::size_t i = 0; i < patches_.size(); ++i) {
    const Patch& p = patches_[i];
    // Value x of a line is that of its cell, or of the face below it.
    const auto put = [&](Field& to, std::ptrdiff_t j, std::ptrdiff_t k, std::ptrdiff_t n, auto&& value) {
      S *const even = to.data() + at(p, j, k), *const odd = even + p.half;
      for (std::ptrdiff_t m = 0; m < n / 2; ++m) odd[m] = value(2 * m), even[m + 1] = value(2 * m + 1);
      if (n % 2) odd[n / 2] = value(n - 1);
    };
    const S* from = diagonal.data() + boxes.offset(i);
    for (std::ptrdiff_t k = 0; k < p.n[2]; ++k)
      for (std::ptrdiff_t j = 0; j < p.n[1]; ++j, from += p.n[0])
        // A cell without couplings (f is 0 there, or nothing solves it) keeps its value.
        put(inverse_, j, k, p.n[0], [&](std::ptrdiff_t x) { return from[x] != S(0) ? S(1) / from[x] : S(1); });
    std::vector<S> of_faces;
    for (int axis = 0; axis < dimensions_; ++axis) {
      const auto a = std::size_t(axis);
      const S* c = a_->faces(axis, i, of_faces).data();
      Field& to = axis == 0 ? cx_ : axis == 1 ? cy_ : cz_;
      const std::ptrdiff_t e[3] = {p.n[0] + (axis == 0), p.n[1] + (axis == 1), p.n[2] + (axis == 2)};
      for (std::ptrdiff_t z = 0; z < e[2]; ++z)
        for (std::ptrdiff_t y = 0; y < e[1]; ++y, c += e[0]) {
          put(to, y, z, e[0], [&](std::ptrdiff_t x) { return c[x]; });
          // What a face with a given value adds stands in the diagonal alone.
          const std::ptrdiff_t k = axis == 1 ? y : z;
          if (axis > 0 && k > 0 && k < p.n[a]) continue;
          for (std::ptrdiff_t x = 0; x < e[0]; x += axis == 0 ? p.n[0] : 1) {
            std::array<Global, 3> cell{p.box.lower[0] + x, p.box.lower[1] + y, p.box.lower[2] + z};
            if (cell[a] == p.box.lower[a]) --cell[a];
            if (boxes.index(cell) < 0) to[std::size_t(at(p, y, z) + place(p, x + 1))] = S(0);
          }
        }
    }
  }
  if (slab_)
    for (Field* const field : {&inverse_, &cx_, &cy_, &cz_}) exchange_planes(*field, slab_->most);
}

// Ghosts, by colour of the place.
template <class S>
void RedBlackLevel<S>::find_ghosts() {
  const op::Boxes& boxes = a_->boxes();
  const auto& comm = boxes.space().comm();
  const auto local_place = [&](Local position) {
    for (std::size_t i = patches_.size(); i-- > 0;)
      if (position >= boxes.offset(i)) {
        const Patch& p = patches_[i];
        const std::ptrdiff_t in = position - boxes.offset(i), x = in % p.n[0], y = in / p.n[0] % p.n[1],
                             z = in / p.n[0] / p.n[1];
        return at(p, y, z) + place(p, x + 1);
      }
    return std::ptrdiff_t(0);
  };
  Global used = 0;
  for (int colour = 0; colour < 2; ++colour) {
    Ghosts& g = ghosts_[std::size_t(colour)];
    const auto halo = op::Halo::build(boxes, [&](std::size_t p, int side, const std::array<Global, 3>& c) {
      return !patches_[p].wrap[std::size_t(side / 2)] && ((c[0] + c[1] + c[2]) & 1) == colour;
    });
    for (std::size_t i = 0; i < patches_.size(); ++i) {
      const Patch& p = patches_[i];
      for (int side = 0; side < 2 * dimensions_; ++side) {
        const std::size_t axis = std::size_t(side / 2), u = axis == 0 ? 1 : 0, v = axis == 2 ? 1 : 2;
        std::size_t s = halo.start[6 * i + std::size_t(side)];
        std::ptrdiff_t c[3];
        c[axis] = side % 2 ? p.n[axis] : -1;
        for (c[v] = 0; c[v] < p.n[v]; ++c[v])
          for (c[u] = 0; c[u] < p.n[u]; ++c[u], ++s) {
            const Local source = halo.source[s];
            if (source == op::Halo::nothing) continue;
            const std::ptrdiff_t to = at(p, c[1], c[2]) + place(p, c[0] + 1);
            if (source >= 0) g.local.emplace_back(to, local_place(source));
            else g.remote.emplace_back(to, op::Halo::ghost(source));
          }
      }
    }
    for (const Local i : halo.pattern->send_index) g.send.push_back(local_place(i));
    used += Global(g.local.size() + g.remote.size());
    // All ranks that share a level open an exchange, also those without ghosts.
    if (!comm.all(halo.pattern->ghosts.empty() && halo.pattern->send_index.empty()))
      g.exchange = std::make_shared<comm::Exchange>(comm, halo.pattern, sizeof(S));
  }
  independent_ = patches_.size() == 1 && used == 0 && !ghosts_[0].exchange && !ghosts_[1].exchange;
}

template <class S>
void RedBlackLevel<S>::find_slabs() {
  const op::Boxes& boxes = a_->boxes();
  const auto& comm = boxes.space().comm();
  if (dimensions_ != 3 || comm.size() == 1) return;
  const op::Domain& domain = boxes.domain();
  const Global plane = domain.cells(0) * domain.cells(1);
  bool slab = boxes.is_whole() && boxes.count() == 1;
  for (int axis = 0; axis < 3; ++axis) slab = slab && (!domain.periodic(axis) || domain.cells(axis) % 2 == 0);
  if (slab) {
    const op::CellBox& b = boxes.own(0);
    slab = b.size(0) == domain.cells(0) && b.size(1) == domain.cells(1) && boxes.space().begin() == b.lower[2] * plane;
  }
  const Global least = comm.all_min(slab ? boxes.own(0).size(2) : Global(0));
  if (least == 0) return;
  slab_ = std::make_unique<Slab>();
  slab_->most = std::min(Slab::planes, std::ptrdiff_t(least));
  slab_->below = domain.periodic(2) || boxes.own(0).lower[2] > 0;
  slab_->above = domain.periodic(2) || boxes.own(0).upper[2] < domain.cells(2);
}

template <class S>
auto RedBlackLevel<S>::some_planes(std::ptrdiff_t count) -> typename Slab::Planes& {
  const auto found = slab_->some.find(count);
  if (found != slab_->some.end()) return found->second;
  const op::Boxes& boxes = a_->boxes();
  const op::CellBox& b = boxes.own(0);
  const Global n = boxes.domain().cells(2), own = b.size(2);
  std::vector<Global> offsets, needed;
  for (const Global at : boxes.space().partition().offsets()) offsets.push_back(at / (b.size(0) * b.size(1)));
  std::vector<std::pair<Global, std::ptrdiff_t>> places;
  for (Global k = -count; k < own + count; ++k) {
    if ((k < 0 && !slab_->below) || (k >= own && !slab_->above)) continue;
    const Global plane = b.lower[2] + k;
    if ((k >= 0 && k < own) || (!boxes.domain().periodic(2) && (plane < 0 || plane >= n))) continue;
    places.emplace_back((plane + n) % n, std::ptrdiff_t(k));
    needed.push_back(places.back().first);
  }
  // Of two ranks one may be on both sides.
  std::sort(needed.begin(), needed.end());
  needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
  auto& made = slab_->some[count];
  for (const auto& [plane, k] : places)
    made.ghosts.emplace_back(Local(std::lower_bound(needed.begin(), needed.end(), plane) - needed.begin()), k);
  const auto& comm = boxes.space().comm();
  const auto pattern =
      std::make_shared<const comm::Pattern>(comm::Pattern::build(comm, std::move(offsets), std::move(needed)));
  made.exchange = std::make_unique<comm::Exchange>(comm, pattern, std::size_t(patches_[0].plane) * sizeof(S));
  return made;
}

template <class S>
void RedBlackLevel<S>::connect(Level<S>* coarser, std::array<std::vector<Local>, 3> parent, const Ways& ways) {
  auto* const coarse = dynamic_cast<RedBlackLevel*>(coarser);  // 7 points stay 7 points
  coarse_ = coarse;
  Level<S>::coarse_ = coarser;
  parent_ = std::move(parent);
  linear_ = ways.interpolation == Interpolation::linear;
  this->make_maps(parent_, ways, ways.interpolation > Interpolation::linear, ways.restriction > Interpolation::constant,
                  ways.full > Interpolation::linear, false);
  paired_ = true;
  const op::Domain& fine = a_->boxes().domain();
  const op::Domain& domain = coarse->a_->boxes().domain();
  for (std::size_t i = 0; i < patches_.size(); ++i) {
    Patch& p = patches_[i];
    for (int axis = 0; axis < 3; ++axis) {
      const auto a = std::size_t(axis);
      p.child[a].clear();
      p.weight[a].assign(std::size_t(p.n[a]), S(0));
      Local last = -1;
      for (std::ptrdiff_t x = 0; x < p.n[a]; ++x) {
        const Global g = p.box.lower[a] + x;
        const Local c = parent_[a][std::size_t(g)];
        if (c != last) p.child[a].push_back(x), last = c;
        if (axis >= dimensions_) continue;
        const double away = fine.centre(axis, g) - domain.centre(axis, c);
        if (std::abs(away) < 1e-9 * fine.width(axis, g)) continue;
        const bool up = away > 0, end = up ? c + 1 == domain.cells(axis) : c == 0;
        double w = std::abs(away) / domain.distance(axis, up ? c + 1 : c);
        // At an end the distance is that to the face: u = 0 there, or no flux.
        if (end && !domain.periodic(axis) && domain.boundary[a][up] != op::Boundary::dirichlet) w = 0;
        p.weight[a][std::size_t(x)] = S(up ? w : -w);
      }
      p.child[a].push_back(p.n[a]);
      if (axis < dimensions_) {
        paired_ = paired_ && p.n[a] % 2 == 0;
        for (std::size_t c = 0; c + 1 < p.child[a].size(); ++c)
          paired_ = paired_ && p.child[a][c + 1] - p.child[a][c] == 2;
      }
    }
  }
  if (slab_) paired_ = a_->range().comm().all(paired_);
}

// 1 / sums of magnitudes of the rows: D and the couplings that stand beside it.
template <class S>
auto RedBlackLevel<S>::inverse_row_sums() const -> Field {
  Field sums(u_.size());
  for (const Patch& p : patches_)
    for (std::ptrdiff_t k = 0; k < p.n[2]; ++k)
      for (std::ptrdiff_t j = 0; j < p.n[1]; ++j)
        for (int half = 0; half < 2; ++half) {
          const auto c = faces_of(p, half, j, k);
          const std::ptrdiff_t here = at(p, j, k) + half * p.half + first_of(half);
          for (std::ptrdiff_t m = 0; m < count_of(p, half); ++m) {
            S sum = std::abs(c.xl[m]) + std::abs(c.xr[m]);
            if (dimensions_ > 1) sum += std::abs(c.yl[m]) + std::abs(c.yr[m]);
            if (dimensions_ > 2) sum += std::abs(c.zl[m]) + std::abs(c.zr[m]);
            const std::size_t i = std::size_t(here + m);
            sums[i] = S(1) / (std::abs(S(1) / inverse_[i]) + sum);
          }
        }
  return sums;
}

template <class S>
void RedBlackLevel<S>::clear_u() {
  std::fill_n(u_.data(), u_.size(), S(0));
}

template <class S>
void RedBlackLevel<S>::add_u(std::span<const S> u) {
  if (p_.size() == 0) r_ = Field(u_.size()), p_ = Field(u_.size());
  load(u, p_);
  for (const Patch& p : patches_)
    for (std::ptrdiff_t k = 0; k < p.n[2]; ++k)
      for (std::ptrdiff_t j = 0; j < p.n[1]; ++j) {
        S* const to = u_.data() + at(p, j, k);
        const S* const from = p_.data() + at(p, j, k);
        for (int half = 0; half < 2; ++half) {
          for (std::ptrdiff_t m = first_of(half); m < first_of(half) + count_of(p, half); ++m)
            to[half * p.half + m] += from[half * p.half + m];
          wrap_ends(p, half, to);
        }
      }
}

template <class S>
void RedBlackLevel<S>::load(std::span<const S> from, Field& to) {
  Trace::work("load", 2.0 * double(from.size_bytes()));
  for (std::size_t i = 0; i < patches_.size(); ++i) {
    const Patch& p = patches_[i];
    const S* const first = from.data() + a_->boxes().offset(i);
    exec::each(std::size_t(p.n[2]), threads_for(p.n[0] * p.n[1] * p.n[2]) > 1, [&](std::size_t plane) {
      const auto k = std::ptrdiff_t(plane);
      for (std::ptrdiff_t j = 0; j < p.n[1]; ++j) {
        const S* const line = first + p.n[0] * (j + p.n[1] * k);
        S *const even = to.data() + at(p, j, k), *const odd = even + p.half;
        for (std::ptrdiff_t m = 0; m < p.n[0] / 2; ++m) odd[m] = line[2 * m], even[m + 1] = line[2 * m + 1];
        if (p.n[0] % 2) odd[p.n[0] / 2] = line[p.n[0] - 1];
        if (to.data() == u_.data()) wrap_ends(p, 0, even), wrap_ends(p, 1, even);
      }
    });
  }
}

template <class S>
void RedBlackLevel<S>::store(const Field& from, std::span<S> to) const {
  Trace::work("store", 2.0 * double(to.size_bytes()));
  for (std::size_t i = 0; i < patches_.size(); ++i) {
    const Patch& p = patches_[i];
    S* const first = to.data() + a_->boxes().offset(i);
    exec::each(std::size_t(p.n[2]), threads_for(p.n[0] * p.n[1] * p.n[2]) > 1, [&](std::size_t plane) {
      const auto k = std::ptrdiff_t(plane);
      for (std::ptrdiff_t j = 0; j < p.n[1]; ++j) {
        S* const line = first + p.n[0] * (j + p.n[1] * k);
        const S *const even = from.data() + at(p, j, k), *const odd = even + p.half;
        for (std::ptrdiff_t m = 0; m < p.n[0] / 2; ++m) line[2 * m] = odd[m], line[2 * m + 1] = even[m + 1];
        if (p.n[0] % 2) line[p.n[0] - 1] = odd[p.n[0] / 2];
      }
    });
  }
}

template <class S>
void RedBlackLevel<S>::restrict_f() {
  const Timed timer(report.residual);
  coarse_->f_beyond_ = 0;
  for (std::size_t i = 0; i < patches_.size(); ++i) {
    const Patch &p = patches_[i], &c = coarse_->patches_[i];
    std::vector<S> sum(std::size_t(c.n[0]));
    for (std::ptrdiff_t kc = 0; kc < c.n[2]; ++kc)
      for (std::ptrdiff_t jc = 0; jc < c.n[1]; ++jc) {
        std::fill(sum.begin(), sum.end(), S(0));
        for (std::ptrdiff_t k = p.child[2][std::size_t(kc)]; k < p.child[2][std::size_t(kc) + 1]; ++k)
          for (std::ptrdiff_t j = p.child[1][std::size_t(jc)]; j < p.child[1][std::size_t(jc) + 1]; ++j) {
            const S *const even = f_.data() + at(p, j, k), *const odd = even + p.half;
            for (std::size_t x = 0; x < sum.size(); ++x)
              for (std::ptrdiff_t v = p.child[0][x]; v < p.child[0][x + 1]; ++v)
                sum[x] += (v + 1) % 2 ? odd[(v + 1) / 2] : even[(v + 1) / 2];
          }
        S *const even = coarse_->f_.data() + at(c, jc, kc), *const odd = even + c.half;
        for (std::ptrdiff_t x = 0; x < c.n[0]; ++x) ((x + 1) % 2 ? odd : even)[(x + 1) / 2] = sum[std::size_t(x)];
      }
  }
}

template <class S>
void RedBlackLevel<S>::interpolate_solution() {
  if (this->full_) return Level<S>::interpolate_solution();
  coarse_->exchange(0), coarse_->exchange(1);
  const Timed timer(report.interpolation);
  for (std::size_t i = 0; i < patches_.size(); ++i) {
    const Patch& p = patches_[i];
    exec::each(std::size_t(p.n[2] * p.n[1]), threads_for(p.n[0] * p.n[1] * p.n[2]) > 1, [&](std::size_t l) {
      interpolate_line(p, coarse_->patches_[i], 3, std::ptrdiff_t(l) % p.n[1], std::ptrdiff_t(l) / p.n[1], true);
    });
  }
}

template class RedBlackLevel<float>;
template class RedBlackLevel<double>;

}  // namespace tacit::precond::mg
