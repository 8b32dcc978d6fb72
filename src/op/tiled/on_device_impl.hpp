// Tiled operators over either memory: instantiated for the host by on_device.cpp, for CUDA's device by on_device.cu.
#pragma once

#include <tacit/op/tiled_on_device.hpp>

#include "sources.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

namespace tacit::op {

template <Scalar T, Memory M>
TiledOnDevice<T, M>::TiledOnDevice(Space range, Space domain, Split split, std::vector<Global> touched,
                                   const RowSource<T>& forward, const RowSource<T>& backward,
                                   const TiledSpmmOptions& options)
    : Operator<T, M>(std::move(range), std::move(domain)),
      split_(split),
      options_(options.matrix),
      parts_(std::make_shared<Parts>()) {
  comm::collective(this->range().comm(), [&] { build(std::move(touched), forward, backward, options); });
}

template <Scalar T, Memory M>
TiledOnDevice<T, M>::TiledOnDevice(Space range, Space domain, const Rows<T>& rows, const TiledSpmmOptions& options)
    : Operator<T, M>(std::move(range), std::move(domain)),
      split_(Split::rows),
      options_(options.matrix),
      parts_(std::make_shared<Parts>()) {
  comm::collective(this->range().comm(), [&] {
    const detail::RowSources<T> made(this->range(), this->domain(), rows);
    build(made.touched, made.forward(), made.backward(), options);
  });
}

template <Scalar T, Memory M>
void TiledOnDevice<T, M>::build(std::vector<Global> touched, const RowSource<T>& forward, const RowSource<T>& backward,
                                const TiledSpmmOptions& options) {
  const auto& comm = this->range().comm();
  const auto& o = options.matrix;
  const auto refuse = [](bool wrong, const auto&... what) {
    require(!wrong, what...,
            "; a matrix on a device is staged: in the format automatic or list, with values full, "
            "float32 of float32 or float16, vectors full or float16, in its own blocks");
  };
  refuse(o.format != TiledFormat::automatic && o.format != TiledFormat::list, "the format was ", to_string(o.format));
  refuse(o.values == Values::bfloat16 || (o.values == Values::single && sizeof(T) != 4), "values were ",
         to_string(o.values));
  refuse(o.vectors == Vectors::bfloat16, "vectors were ", to_string(o.vectors));
  refuse(o.block_rows != 0 || o.tile != 0, "block_rows was ", o.block_rows, " and tile ", o.tile);
  refuse(o.tune, "tuning was asked for");
  refuse(options.clusters.has_value(), "an order by clusters was asked for");
  refuse(options.minibatch != 0, "messages of ", options.minibatch, " columns were asked for");
  detail::TiledPart part(this->range(), this->domain(), split_, std::move(touched), options.groups);
  local_ = part.local, parts_->reduction = std::move(part.reduction);
  const bool halves = o.vectors == Vectors::half;
  const int at_once = halves ? (o.columns <= 16 ? 16 : 64) : o.columns <= 1 ? 1 : o.columns <= 8 ? 8 : 32;
  const auto values = o.values == Values::half ? Values::half : Values::full;
  std::atomic<bool> wrong = false;
  const auto watched = [&wrong](const RowSource<T>& source) -> RowSource<T> {
    return [&](Local begin, Local end, RowBuffer<T>& out) {
      const auto first = std::ptrdiff_t(out.value.size());
      source(begin, end, out);
      if (std::any_of(out.value.begin() + first, out.value.end(), [](T v) { return !std::isfinite(v); })) wrong = true;
    };
  };
  auto &there = parts_->forward, &back = parts_->backward;
  there = std::make_unique<Matrix>(part.rows, part.columns, watched(forward), at_once, values, o.vectors);
  back = std::make_unique<Matrix>(part.columns, part.rows, watched(backward), at_once, values, o.vectors);
  entries_ = detail::entries_of(comm, there->entries(), back->entries());
  largest_ = comm.all_max(there->largest());
  if (comm.all_max(Global(wrong)) > 0) fault_ = "the matrix has a value that is not finite";
  if (!halves) return;
  messages_ = comm::MessageFormat::fixed16;
  in_full_[0].reset(new TiledOnDevice(*this, true, messages_));
  in_full_[1].reset(new TiledOnDevice(*this, true, comm::MessageFormat::full));
}

template <Scalar T, Memory M>
TiledOnDevice<T, M>::TiledOnDevice(const TiledOnDevice& of, bool full_vectors, comm::MessageFormat messages)
    : Operator<T, M>(of.range(), of.domain()),
      split_(of.split_),
      local_(of.local_),
      entries_(of.entries_),
      largest_(of.largest_),
      fault_(of.fault_),
      options_(of.options_),
      full_vectors_(full_vectors),
      messages_(messages),
      parts_(of.parts_) {}

template <Scalar T, Memory M>
const Operator<T, M>& TiledOnDevice<T, M>::accurate_to(double relative) const {
  if (!in_full_[0] || half_unit(options_.vectors) <= relative) return *this;
  return *in_full_[comm::half_unit(messages_) <= relative ? 0 : 1];
}

template <Scalar T, Memory M>
void TiledOnDevice<T, M>::multiply(bool adjoint, const T* x, T* y, int k) const {
  typename Matrix::After after;
  after.full_vectors = full_vectors_;
  matrix(adjoint).multiply(x, y, k, after);
}

template <Scalar T, Memory M>
TiledOnDevice<T, M>::~TiledOnDevice() = default;

template <Scalar T, Memory M>
std::string TiledOnDevice<T, M>::storage() const {
  const bool halves = options_.vectors == Vectors::half;
  std::string text = message("staged, ", options_.values == Values::half ? "float16"
                                         : sizeof(T) == 4                ? "float32"
                                                                         : "float64");
  if (halves) text += ", vectors in float16";
  return text;
}
template <Scalar T, Memory M>
double TiledOnDevice<T, M>::bytes() const {
  return parts_->forward->bytes() + parts_->backward->bytes();
}

template <Scalar T, Memory M>
Cost TiledOnDevice<T, M>::cost_of(bool adjoint) const {
  const auto& a = matrix(adjoint);
  Cost c;
  c.flops = 2.0 * double(a.entries());
  c.bytes = a.bytes() + sizeof(T) * (double(a.rows()) + double(a.columns()));
  detail::add_messages<T>(c, this->range().comm(), *parts_->reduction, !sums(adjoint), messages_);
  return c;
}

template <Scalar T, Memory M>
std::vector<T> TiledOnDevice<T, M>::spare() const {
  auto& spare = parts_->spare;
  if (spare.empty()) return {};
  auto found = std::move(spare.back());
  spare.pop_back();
  return found;
}
template <Scalar T, Memory M>
T* TiledOnDevice<T, M>::touched(std::size_t size) const {
  if (parts_->touched.size() < size) parts_->touched = exec::Array<T, M>(size);
  return parts_->touched.data();
}

// Copies between this rank's elements and a host array.
template <class T, Memory M>
void to_host(const T* from, std::vector<T>& to, std::size_t n) {
  if (to.size() < n) to.resize(n);
  if (n == 0) return;
  if constexpr (std::same_as<M, Host>) std::copy_n(from, n, to.data());
  else exec::copy_to_host(to.data(), from, n * sizeof(T));
}
template <class T, Memory M>
void from_host(const std::vector<T>& from, T* to, std::size_t n) {
  if (n == 0) return;
  if constexpr (std::same_as<M, Host>) std::copy_n(from.data(), n, to);
  else exec::copy_to_device(to, from.data(), n * sizeof(T));
}

template <Scalar T, Memory M>
int TiledOnDevice<T, M>::begin(const Vector<T, M>& x, Vector<T, M>&, bool adjoint) const {
  if (local_) return -1;
  const int k = x.columns();
  auto host = spare();
  if (!sums(adjoint)) {
    to_host<T, M>(x.data(), host, x.size());
    const int token = parts_->reduction->start_spread(host.data(), k, k, messages_);
    if constexpr (!std::same_as<M, Host>) this->range().comm().poll();  // sums that the device formed before are there
    parts_->spreads[token] = std::move(host);
    return token;
  }
  const std::size_t size = std::size_t(matrix(adjoint).rows()) * std::size_t(k);
  T* const part = touched(size);
  multiply(adjoint, x.data(), part, k);
  to_host<T, M>(part, host, size);
  const int token = parts_->reduction->start_sum(host.data(), k, messages_);
  if constexpr (!std::same_as<M, Host>) this->range().comm().poll();
  parts_->spare.push_back(std::move(host));
  return token;
}

template <Scalar T, Memory M>
void TiledOnDevice<T, M>::finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int token) const {
  const int k = x.columns();
  if (local_) return multiply(adjoint, x.data(), y.data(), k);
  auto host = spare();
  if (sums(adjoint)) {
    if (host.size() < y.size()) host.resize(y.size());
    parts_->reduction->finish_sum(token, host.data(), k, k);
    from_host<T, M>(host, y.data(), y.size());
  } else {
    const std::size_t size = std::size_t(matrix(adjoint).columns()) * std::size_t(k);
    if (host.size() < size) host.resize(size);
    auto sent = std::move(parts_->spreads.at(token));
    parts_->spreads.erase(token);
    parts_->reduction->finish_spread(token, sent.data(), k, k, host.data());
    parts_->spare.push_back(std::move(sent));
    T* const part = touched(size);
    from_host<T, M>(host, part, size);
    multiply(adjoint, part, y.data(), k);
  }
  parts_->spare.push_back(std::move(host));
}

template <Scalar T, Memory M>
void TiledOnDevice<T, M>::abandon(int token) const noexcept {
  if (token < 0) return;
  parts_->spreads.erase(token);
  parts_->reduction->abandon(token);
}

}  // namespace tacit::op
