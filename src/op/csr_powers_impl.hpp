// The matrix powers kernel of Csr; part of csr_impl.hpp.
#pragma once

namespace tacit::op {

// Rows of others that a rank may always have beside its own: computing them takes as long as the messages that they
// save.
inline constexpr Global few_rows_around = 1024;

template <Scalar T, Memory M>
bool Csr<T, M>::has_powers_kernel() const {
  return std::same_as<M, Host> && this->domain() == this->range();
}

template <Scalar T, Memory M>
void Csr<T, M>::powers_kernel(std::span<Vector<T, M>* const> v, std::span<const RecurrenceStep<T>> steps,
                              const Vector<T, M>* before, const Diagonals<T, M>& around,
                              std::span<Vector<T, M>* const> images) const {
  require(has_powers_kernel(),
          "a csr matrix has a matrix powers kernel in host memory, and where its rows and columns are ",
          "spread alike");
  if constexpr (std::same_as<M, Host>) {
    const int s = int(steps.size());
    require(v.size() == steps.size() + 1, "powers of ", s, " steps into ", v.size(), " vectors");
    if (s == 0) return;
    const auto &space = this->domain(), &start = v[0]->space();
    const auto& comm = space.comm();
    const int k = v[0]->columns();
    const bool looks_back = steps[0].beta != T(0);
    require(start == space, "powers of a csr matrix of vectors in another space");
    for (const auto* u : v) require(u->space() == space && u->columns() == k, "powers into vectors that are not alike");
    require(!looks_back || (before && before->space() == space && before->columns() == k),
            "a step of a Krylov basis that uses the vector before the last was given none");
    const Vector<T, M>* const diagonals[2] = {around.left, around.right};
    for (const auto* D : diagonals)
      require(!D || (D->space() == space && D->columns() == 1), "a diagonal that does not fit its matrix");
    require(!around.right || images.size() == 1 || images.size() >= steps.size(), "powers of ", s, " steps with ",
            images.size(), " vectors for their images");
    const Span span("matrix powers", "op", Trace::on() ? std::int64_t(s * cost().bytes) : 0);
    const exec::Tasks::InOrder in_order(true);
    const std::size_t n = std::size_t(space.local_size());

    using Reach = typename Surroundings<T>::Reach;
    Reach* reach = nullptr;
    auto& known = parts_->around;
    if (comm.size() > 1) {
      if (known) reach = known->find(s);
      if (!reach) {
        try {
          comm::collective(comm, [&] {
            if (!known) known = std::make_unique<Surroundings<T>>(space, *pattern_);
            reach = &known->make(s, [&] { return rows(); });
          });
        } catch (...) {
          parts_->rows_around.reset(),
              known.reset();  // ranks may have failed at different points, with different levels of ghosts
          throw;
        }
      }
    }
    const auto ghosts = [&](int level) { return reach ? std::size_t(known->ghosts(level)) : 0; };

    // The values that are sent for each element: of v[0], of `before`, of the diagonals.
    const int width = k + (looks_back ? k : 0) + int(around.left != nullptr) + int(around.right != nullptr);
    comm::Exchange* const e = reach ? &known->exchange(*reach, width) : nullptr;
    const int slot = e ? e->open() : -1;
    if (e) {
      const Span pack("pack", "op");
      T* out = reinterpret_cast<T*>(e->outgoing(slot));
      for (const Local i : reach->pattern->send_index) {
        out = std::copy_n(v[0]->data() + std::ptrdiff_t(i) * k, k, out);
        if (looks_back) out = std::copy_n(before->data() + std::ptrdiff_t(i) * k, k, out);
        for (const auto* D : diagonals)
          if (D) *out++ = D->data()[i];
      }
      e->post(slot);
    }
    // Ghost values of the last three vectors, level after level: those of v[c] are in ghost[c % 3].
    std::vector<T> ghost[3], image, left, right;
    for (auto& g : ghost) g.resize(ghosts(s) * std::size_t(k));
    const auto arrive = [&] {
      e->wait(slot);
      const T* in = reinterpret_cast<const T*>(e->incoming(slot));
      if (around.left) left.resize(ghosts(s));
      if (around.right) right.resize(ghosts(s)), image.resize(ghosts(s) * std::size_t(k));
      for (const Local place : reach->place) {
        const auto take = [&](T* to) { std::copy_n(in, k, to + std::ptrdiff_t(place) * k), in += k; };
        take(ghost[0].data());
        if (looks_back) take(ghost[2].data());
        if (around.left) left[std::size_t(place)] = *in++;
        if (around.right) right[std::size_t(place)] = *in++;
      }
      e->close(slot);
    };
    const auto scale = [k](const T* d, const T* x, T* y, std::size_t count) {
      exec::parallel_for(count, count > exec::detail::parallel_from, [=](std::size_t i) {
        for (int c = 0; c < k; ++c) y[i * std::size_t(k) + c] = d[i] * x[i * std::size_t(k) + c];
      });
      Trace::work("scale", double(count) * (2 * k + 1) * sizeof(T));
    };

    for (int c = 0; c < s; ++c) {
      const T* x = v[c]->data();
      T* const y = v[c + 1]->data();
      const T* ghost_x = ghost[c % 3].data();
      T* const ghost_y = ghost[(c + 1) % 3].data();
      if (around.right) {
        T* const z = images[images.size() == 1 ? 0 : std::size_t(c)]->data();
        scale(around.right->data(), x, z, n);
        x = z;
      }
      parts_->own->multiply(x, y, k, comm);
      this->count_apply();
      if (reach) {
        if (c == 0) arrive();
        if (around.right) {
          scale(right.data(), ghost_x, image.data(), ghosts(s - c));
          ghost_x = image.data();
        }
        parts_->ghost->multiply_add(ghost_x, y, k);  // level 1 of the ghosts is in the order of pattern_
        const std::size_t within = ghosts(s - c - 1);
        known->multiply(Local(within), ghost_x, x, ghost_y, k);
        if (around.left) scale(left.data(), ghost_y, ghost_y, within);
        extend_rows(steps[c], ghost[(c + 2) % 3].data(), ghost[c % 3].data(), ghost_y, 0, std::ptrdiff_t(within) * k);
      }
      if (around.left) scale(around.left->data(), y, y, n);
      extend(steps[c], c > 0 ? v[c - 1] : before, *v[c], *v[c + 1]);
    }
  }
}

template <Scalar T, Memory M>
const RowsAround<T>* Csr<T, M>::rows_around(int products) const requires std::same_as<M, Host> {
  auto& p = *parts_;
  if (!has_powers_kernel() || products >= p.too_far) return nullptr;
  const auto& space = this->domain();
  const auto& comm = space.comm();
  if (p.rows_around && (comm.size() == 1 || p.rows_around->levels() >= products)) return p.rows_around.get();
  try {
    comm::collective(comm, [&] {
      p.rows_around.reset();
      if (!p.around) p.around = std::make_unique<Surroundings<T>>(space, *pattern_);
      const auto own = rows();
      const Global most = Global(space.local_size()) + few_rows_around;
      bool near = true;
      for (int level = 1; near && level <= products; ++level) {
        if (p.around->levels() < level) p.around->grow(own);
        near = comm.all(Global(p.around->ghosts(level)) <= most);
      }
      if (near) p.rows_around = std::make_unique<RowsAround<T>>(space, own, *p.around, products, p.format);
      else p.too_far = products;
    });
  } catch (...) {
    p.rows_around.reset(), p.around.reset();  // ranks may have failed at different points
    throw;
  }
  return p.rows_around.get();
}

template <Scalar T, Memory M>
void Csr<T, M>::powers(std::span<Vector<T, M>* const> v, std::span<const RecurrenceStep<T>> steps,
                       const Vector<T, M>* before) const {
  if constexpr (std::same_as<M, Host>) {
    if (this->powers_are_local(v, steps, before)) {
      const exec::Tasks::InOrder in_order(true);
      const Span span("csr powers", "op", Trace::on() ? std::int64_t(cost().bytes) * std::int64_t(steps.size()) : 0);
      std::vector<T*> at;
      for (auto* x : v) at.push_back(x->data());
      parts_->own->powers(at.data(), steps, before ? before->data() : nullptr);
      return;
    }
  }
  Operator<T, M>::powers(v, steps, before);
}

}  // namespace tacit::op
