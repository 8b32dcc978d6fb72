// Csr over both memory spaces; instantiated by csr.cpp (host) and csr.cu (device).
#pragma once

#include <tacit/base/trace.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/local_matrix.hpp>

#include "csr_rows.hpp"
#include "powers.hpp"
#include "recurrence_impl.hpp"
#include "rows_around.hpp"
#include "scheduled.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>

namespace tacit::op {

template <Scalar T, Memory M>
struct Csr<T, M>::Parts {
  std::shared_ptr<LocalMatrix<T, M>> own;
  std::unique_ptr<RowList<T, M>> ghost;
  // For A^H; made at the first adjoint product. `own` where that equals its adjoint.
  std::shared_ptr<LocalMatrix<T, M>> own_adjoint;
  std::unique_ptr<RowList<T, M>> ghost_adjoint;
  exec::Array<Local, M> send_index;
  std::vector<T> diagonal;  // where rows and columns are spread alike
  // By number of columns: the messages, and the received ghosts in M.
  std::map<int, std::unique_ptr<comm::Exchange>> exchanges;
  std::map<int, exec::Array<T, M>> ghosts;
  std::unique_ptr<Surroundings<T>> around;  // made at the first powers_kernel() or rows_around()
  // On several ranks made at the first rows_around(); on one with the matrix, as threads may use it for the first time
  // at once.
  std::unique_ptr<RowsAround<T>> rows_around;
  int too_far = std::numeric_limits<int>::max();  // so many products need too many rows around
  // Rows of `ghost` that need the same neighbours (positions in receive_ranks). Made at the first product that is
  // scheduled as split or jobs.
  struct Group {
    std::vector<int> needs;
    std::vector<Local> rows;
  };
  std::vector<Group> groups;
  std::map<int, Tuner> tuners;  // by number of columns
  Format format;
  // Of the parts for A and, where they are made, those for A^H.
  std::uint64_t made = 0, adjoint_made = 0;
  std::uint64_t checksum(const comm::Pattern& pattern) const requires std::same_as<M, Host> {
    return exec::Checksum()
        .add(pattern.send_ranks)
        .add(pattern.receive_ranks)
        .add(pattern.send_offsets)
        .add(pattern.receive_offsets)
        .add(pattern.send_index)
        .add(std::array{own->checksum(), ghost->checksum()})
        .value();
  }
  std::uint64_t adjoint_checksum() const requires std::same_as<M, Host> {
    return exec::Checksum().add(std::array{own_adjoint->checksum(), ghost_adjoint->checksum()}).value();
  }
};

template <Scalar T, Memory M>
Csr<T, M>::Csr(Space range, Space domain, Rows<T> rows, Format format)
    : Operator<T, M>(std::move(range), std::move(domain)), parts_(std::make_unique<Parts>()) {
  comm::collective(this->range().comm(), [&] {
    store(RowsView<T, Global>{rows.start, rows.column, rows.value}, &rows, format);
  });
}
template <Scalar T, Memory M>
Csr<T, M>::Csr(Space range, Space domain, RowsView<T, std::int32_t> rows, Format format)
    : Operator<T, M>(std::move(range), std::move(domain)), parts_(std::make_unique<Parts>()) {
  comm::collective(this->range().comm(), [&] { store(rows, nullptr, format); });
}
template <Scalar T, Memory M>
Csr<T, M>::Csr(Space range, Space domain, RowsView<T, std::int64_t> rows, Format format)
    : Operator<T, M>(std::move(range), std::move(domain)), parts_(std::make_unique<Parts>()) {
  comm::collective(this->range().comm(), [&] { store(rows, nullptr, format); });
}

template <Scalar T, class Index>
std::string not_finite_at(RowsView<T, Index> rows, Global entry, Global first) {
  const auto row = std::upper_bound(rows.start.begin(), rows.start.end(), entry) - rows.start.begin() - 1;
  return message("the matrix has a value that is not finite at row ", first + row, ", column ",
                 rows.column[std::size_t(entry)], " (counted from 0)");
}

template <Scalar T, Memory M>
template <class Index>
void Csr<T, M>::store(RowsView<T, Index> rows, Rows<T>* owned, Format format) {
  const Space &to = this->range(), &from = this->domain();
  const auto& comm = to.comm();
  require(std::same_as<M, Host> || format != Format::bsr,
          "storage format \"bsr\" is of host memory; in device memory there are \"automatic\", \"csr\" and \"sell\"");
  require(!to.is_replicated() && !from.is_replicated(), "a csr matrix works on distributed spaces");
  require(rows.count() == to.local_size(), "rank ", comm.rank(), " owns ", to.local_size(), " rows but was given ",
          rows.count());
  require(rows.column.size() == rows.value.size() && Global(rows.column.size()) == rows.start.back(),
          "a csr matrix with ", rows.column.size(), " columns, ", rows.value.size(), " values and ", rows.start.back(),
          " entries by its row starts");
  auto found = survey(rows, from, to.begin(), to == from);
  if (found.wrong >= 0 && !owned && !ascends(rows, found.wrong)) {
    found = {};
    Rows<T> sorted{{rows.start.begin(), rows.start.end()},
                   {rows.column.begin(), rows.column.end()},
                   {rows.value.begin(), rows.value.end()}};
    sort_rows(sorted);
    return store(RowsView<T, Global>{sorted.start, sorted.column, sorted.value}, &sorted, format);
  }
  if (found.wrong >= 0) refuse_row(rows, found.wrong, to, from);
  const std::string fault = found.infinite < 0 ? "" : not_finite_at(rows, found.infinite, to.begin());
  parts_->diagonal = std::move(found.diagonal);
  LocalRows<T> own, ghost;
  std::vector<Global> needed;
  LocalRowsView<T> view;
  if (found.ghosts > 0) {
    split(rows, from.begin(), from.end(), found.ghosts, own, ghost, needed);
    if (owned) *owned = {};
    view = own;
  } else {
    bool in_place = false;
    if constexpr (std::same_as<Index, Local>) in_place = from.begin() == 0, view.column = rows.column;
    if (!in_place) {
      own.column = local_columns(rows.column, from.begin());
      view.column = own.column;
      if (owned) exec::Buffer<Global>().swap(owned->column);
    }
    view.start = rows.start, view.value = rows.value;
  }
  view.columns = from.local_size();
  view.row_begin = to.begin(), view.column_begin = from.begin();
  const Global entries_here = view.start.back() + ghost.start.back();
  parts_->format = format;
  parts_->own = std::make_shared<LocalMatrix<T, M>>(view, format);
  own = {};
  if (owned) *owned = {};
  if constexpr (std::same_as<M, Host>)
    if (comm.size() == 1 && to == from) parts_->rows_around = std::make_unique<RowsAround<T>>(*parts_->own);
  parts_->ghost = std::make_unique<RowList<T, M>>(ghost);
  pattern_ =
      std::make_shared<const comm::Pattern>(comm::Pattern::build(comm, from.partition().offsets(), std::move(needed)));
  parts_->send_index = exec::Array<Local, M>::from(pattern_->send_index);
  own_entries_ = entries_here;
  entries_ = comm.all_sum(entries_here);
  largest_ = comm.all_max(double(found.largest));
  const int first_fault = int(comm.all_min(Global(fault.empty() ? comm.size() : comm.rank())));
  if (first_fault < comm.size()) fault_ = comm.broadcast(fault, first_fault);
  remember_arrays();
}

/// Sets what intact() compares with.
template <Scalar T, Memory M>
void Csr<T, M>::remember_arrays() {
  if constexpr (std::same_as<M, Host>) parts_->made = parts_->checksum(*pattern_);
}
template <Scalar T, Memory M>
bool Csr<T, M>::intact() const {
  if constexpr (std::same_as<M, Host>) {
    const Parts& p = *parts_;
    return p.checksum(*pattern_) == p.made && (!p.own_adjoint || p.adjoint_checksum() == p.adjoint_made);
  }
  return true;
}

template <Scalar T, Memory M>
std::shared_ptr<const Operator<in_double_t<T>, M>> Csr<T, M>::in_double() const {
  if constexpr (std::same_as<real_t<T>, float> && std::same_as<M, Host>) {
    Rows<T> own = rows();
    Rows<in_double_t<T>> wider{std::move(own.start), std::move(own.column), {own.value.begin(), own.value.end()}};
    return std::make_shared<const Csr<in_double_t<T>, M>>(this->range(), this->domain(), std::move(wider));
  } else {
    return nullptr;
  }
}

template <Scalar T, Memory M>
void Csr<T, M>::copy_values(T* to) const requires std::same_as<M, Host> {
  const auto& p = *parts_;
  if (p.ghost->entries() == 0) return p.own->copy_values(nullptr, to);
  const auto& ghosts = pattern_->ghosts;
  const Local left = Local(std::lower_bound(ghosts.begin(), ghosts.end(), this->domain().begin()) - ghosts.begin());
  const T* const outside = p.ghost->values();
  const auto begin =
      begin_of_own(*p.own, *p.ghost, this->range().local_size(), left, [&](Global k, Global g) { to[k] = outside[g]; });
  p.own->copy_values(begin.data(), to);
}

template <Scalar T, Memory M>
void Csr<T, M>::update_values(std::span<const T> values) requires std::same_as<M, Host> {
  const auto& comm = this->range().comm();
  comm::collective(comm, [&] {
    auto& p = *parts_;
    const Space& from = this->domain();
    const auto& ghosts = pattern_->ghosts;
    const Local left = Local(std::lower_bound(ghosts.begin(), ghosts.end(), from.begin()) - ghosts.begin());
    require(Global(values.size()) == own_entries_, "the matrix has ", own_entries_, " entries on rank ", comm.rank(),
            " and was given ", values.size(), " values");
    T* const diagonal = this->range() == from ? p.diagonal.data() : nullptr;
    if (p.ghost->entries() == 0) {
      p.own->set_values(nullptr, values.data(), diagonal);
    } else {
      std::vector<T> outside(std::size_t(p.ghost->entries()));
      const auto begin = begin_of_own(*p.own, *p.ghost, this->range().local_size(), left,
                                      [&](Global k, Global g) { outside[std::size_t(g)] = values[std::size_t(k)]; });
      p.own->set_values(begin.data(), values.data(), diagonal);
      p.ghost->set_values(outside.data());
    }
    p.own_adjoint.reset(), p.ghost_adjoint.reset();
    if (p.around) p.rows_around.reset(), p.around.reset();
    remember_arrays();
    const auto largest = largest_of_pieces(values);
    const bool finite = std::all_of(largest.begin(), largest.end(), [](T v) { return is_finite(v); });
    const auto bad =
        finite ? values.end() : std::find_if(values.begin(), values.end(), [](T v) { return !is_finite(v); });
    find_largest(largest, finite ? std::string() : fault_at(bad - values.begin()));
  });
}

/// Sets largest() and fault() from this rank's values, or the largest of them, and its first fault. Collective.
template <Scalar T, Memory M>
void Csr<T, M>::find_largest(std::span<const T> values, const std::string& fault) {
  const auto& comm = this->range().comm();
  real_t<T> largest = 0;
  for (const T v : values)
    if constexpr (is_complex<T>) largest = std::max({largest, std::abs(v.real()), std::abs(v.imag())});
    else largest = std::max(largest, std::abs(v));
  largest_ = comm.all_max(double(largest));
  const int first_fault = int(comm.all_min(Global(fault.empty() ? comm.size() : comm.rank())));
  fault_ = first_fault < comm.size() ? comm.broadcast(fault, first_fault) : std::string();
}

/// The text of fault() for this rank's entry number k. Local.
template <Scalar T, Memory M>
std::string Csr<T, M>::fault_at(Global k) const {
  const auto all = rows();
  const auto row = std::upper_bound(all.start.begin(), all.start.end(), k) - all.start.begin() - 1;
  return message("the matrix has a value that is not finite at row ", this->range().begin() + Global(row), ", column ",
                 all.column[std::size_t(k)], " (counted from 0)");
}

template <Scalar T, Memory M>
void Csr<T, M>::become(Csr&& other) {
  require(other.range() == this->range() && other.domain() == this->domain(),
          "a matrix can become another one of the same rows and columns on the same ranks only");
  ++times_replaced_;
  entries_ = other.entries_, own_entries_ = other.own_entries_;
  largest_ = other.largest_, fault_ = std::move(other.fault_);
  pattern_ = std::move(other.pattern_), parts_ = std::move(other.parts_);
}

template <Scalar T, Memory M>
Csr<T, M>::~Csr() = default;

template <Scalar T, Memory M>
comm::Exchange& Csr<T, M>::exchange(int columns) const {
  auto& e = parts_->exchanges[columns];
  if (!e) {
    // The ghosts first: where memory runs out, a later call finds neither.
    parts_->ghosts[columns] = exec::Array<T, M>(std::size_t(pattern_->ghost_count()) * columns);
    e = std::make_unique<comm::Exchange>(this->domain().comm(), pattern_, sizeof(T) * columns);
  }
  return *e;
}

template <Scalar T, Memory M>
void Csr<T, M>::build_adjoint() const {
  if (parts_->own_adjoint) return;
  auto& p = *parts_;
  std::shared_ptr<LocalMatrix<T, M>> own;
  if constexpr (std::same_as<M, Host>)
    if (this->range() == this->domain() && p.own->mirrors_itself({})) own = p.own;
  if (!own) own = std::make_shared<LocalMatrix<T, M>>(adjoint(p.own->rows()), p.format);
  parts_->ghost_adjoint = std::make_unique<RowList<T, M>>(
      adjoint(parts_->ghost->rows(this->range().local_size(), pattern_->ghost_count())));
  p.own_adjoint = std::move(own);
  if constexpr (std::same_as<M, Host>) parts_->adjoint_made = parts_->adjoint_checksum();
}

template <Scalar T, Memory M>
int Csr<T, M>::begin(const Vector<T, M>& x, Vector<T, M>& y, bool backward) const {
  const auto& comm = this->domain().comm();
  if (comm.size() == 1) return -1;
  const int k = x.columns();
  auto& e = exchange(k);
  const int slot = e.open(!backward);
  if (!backward) {
    const Span span("pack", "op");
    if constexpr (std::same_as<M, Host>) {
      if (auto* const tasks = exec::Tasks::current(); tasks && k == 1 && !tasks->in_order()) {
        // Waits only for the blocks that have elements to be sent; tasks that write these run first from now on.
        const std::size_t n = x.size(), rows = exec::Tasks::block_of(n);
        std::vector<std::size_t> blocks;
        std::vector<const void*> where;
        for (const Local i : pattern_->send_index) blocks.push_back(std::size_t(i) / rows);
        std::sort(blocks.begin(), blocks.end());
        blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
        for (const std::size_t b : blocks) where.push_back(x.data() + b * rows);
        tasks->put_first(n, blocks);
        tasks->wait_for(where);
      } else {
        exec::settle();
      }
    }
    if constexpr (std::same_as<M, Host>) {
      e.post(slot, x.data());
      return slot;
    } else {
      // The device has the product with the own part while the host waits for what neighbours need, and sends it.
      pack<T, M>(x.data(), parts_->send_index, k, reinterpret_cast<T*>(e.outgoing(slot)),
                 [&] { parts_->own->multiply(x.data(), y.data(), k, comm); });
    }
  } else {
    T* const out = reinterpret_cast<T*>(e.outgoing(slot));
    build_adjoint();
    exec::settle();
    const std::size_t n = std::size_t(pattern_->ghost_count()) * k;
    auto& ghosts = parts_->ghosts[k];
    ghosts = exec::Array<T, M>(n);
    parts_->ghost_adjoint->multiply_add(x.data(), ghosts.data(), k);
    if constexpr (std::same_as<M, Host>) std::copy_n(ghosts.data(), n, out);
    else fetch<T, M>(ghosts.data(), n, out, [&] { parts_->own_adjoint->multiply(x.data(), y.data(), k, comm); });
  }
  e.post(slot);
  if constexpr (!std::same_as<M, Host>) comm.poll();  // sums that the device formed before are there
  return slot;
}

template <Scalar T, Memory M>
void Csr<T, M>::abandon(int slot) const noexcept {
  for (const auto& [columns, e] : parts_->exchanges)
    if (e) e->abandon(slot);
}

template <Scalar T, Memory M>
bool Csr<T, M>::finish_scheduled(const Schedule& schedule, const Vector<T, M>& x, Vector<T, M>& y, int slot) const {
  if constexpr (std::same_as<M, Host>) {
    const int k = x.columns();
    auto& e = exchange(k);
    if (schedule.how == Schedule::How::synchronous) e.wait(slot);
    if (schedule.how != Schedule::How::split && schedule.how != Schedule::How::jobs) return false;
    auto& p = *parts_;
    if (p.groups.empty()) {
      const auto& offsets = pattern_->receive_offsets;
      std::map<std::vector<int>, std::vector<Local>> by_needs;
      for (Local i = 0; i < p.ghost->count(); ++i) {
        std::vector<int> needs;
        for (const Local c : p.ghost->columns_of(i))
          needs.push_back(int(std::upper_bound(offsets.begin(), offsets.end(), c) - offsets.begin()) - 1);
        std::sort(needs.begin(), needs.end());
        needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
        by_needs[std::move(needs)].push_back(i);
      }
      for (auto& [needs, rows] : by_needs) p.groups.push_back({needs, std::move(rows)});
    }
    const T* const in = reinterpret_cast<const T*>(e.incoming(slot));
    auto& z = p.ghosts[-k];  // the products of `ghost` (key -k: not the received ghosts)
    if (z.size() != std::size_t(p.ghost->count()) * std::size_t(k))
      z = exec::Array<T, M>(std::size_t(p.ghost->count()) * std::size_t(k));
    Pieces pieces;
    pieces.interior = std::size_t(p.own->blocks());
    pieces.rows_of_unit = double(x.space().local_size()) / std::max(1, p.own->blocks());
    pieces.run_interior = [&](std::size_t from, std::size_t to) {
      p.own->multiply(int(from), int(to), x.data(), y.data(), k);
    };
    for (const auto& group : p.groups)
      pieces.remote.push_back({group.rows.size(), group.needs,
                               [&, rows = std::span<const Local>(group.rows)](std::size_t from, std::size_t to) {
                                 p.ghost->multiply(rows.subspan(from, to - from), in, z.data(), k);
                               }});
    pieces.finishing = std::size_t(p.ghost->count());
    pieces.finish = [&](std::size_t from, std::size_t to) {
      p.ghost->add(z.data(), y.data(), k, Local(from), Local(to));
    };
    run_scheduled(schedule, e, slot, pieces);
    e.close(slot);
    return true;
  } else {
    return false;
  }
}

template <Scalar T, Memory M>
void Csr<T, M>::finish(const Vector<T, M>& x, Vector<T, M>& y, bool backward, int slot) const {
  const auto& comm = this->domain().comm();
  const int k = x.columns();
  const Span span(backward ? "csr adjoint" : "csr product", "op", Trace::on() ? std::int64_t(cost().bytes) : 0);
  if constexpr (std::same_as<M, Host>) {
    if (auto* const tasks = exec::Tasks::current(); tasks && !backward && k == 1 && !tasks->in_order()) {
      parts_->own->start(*tasks, x.data(), y.data());
      if (slot < 0) return;
      auto& e = exchange(k);
      e.wait(slot);  // this thread does tasks of the product while it waits
      const T* const in = reinterpret_cast<const T*>(e.incoming(slot));
      parts_->ghost->start_add(*tasks, std::make_shared<const std::vector<T>>(in, in + pattern_->ghost_count()),
                               y.data(), y.size());
      e.close(slot);
      return;
    }
  }
  const Tuner::Clock clock(
      std::same_as<M, Host> && !backward && slot >= 0 && !exec::Tasks::current() ? &parts_->tuners[k] : nullptr,
      this->schedule(), comm.has_threads() ? this->range().local_size() : 0);
  if (clock.runs() && finish_scheduled(clock.schedule(), x, y, slot)) return;
  if (std::same_as<M, Host> || slot < 0) {  // else begin() has done it
    if (backward) build_adjoint();
    (backward ? parts_->own_adjoint : parts_->own)->multiply(x.data(), y.data(), k, comm);
  }
  if (slot < 0) return;
  auto& e = exchange(k);
  e.wait(slot);
  const T* const in = reinterpret_cast<const T*>(e.incoming(slot));
  exec::settle();
  if (backward) {
    unpack_add<T, M>(in, parts_->send_index, k, y.data());
  } else {
    if constexpr (std::same_as<M, Host>) {
      parts_->ghost->multiply_add(in, y.data(), k);
    } else {
      auto& ghosts = parts_->ghosts[k];
      receive<T, M>(in, std::size_t(pattern_->ghost_count()) * k, ghosts);
      parts_->ghost->multiply_add(ghosts.data(), y.data(), k);
    }
  }
  e.close(slot);
}

template <Scalar T, Memory M>
std::vector<T> Csr<T, M>::diagonal() const {
  require(this->domain() == this->range(), "the diagonal of a matrix whose rows and columns are spread differently");
  return parts_->diagonal;
}

template <Scalar T, Memory M>
Cost Csr<T, M>::cost() const {
  const double vectors = double(this->range().local_size()) + double(this->domain().local_size());
  double per_flop = is_complex<T> ? 8 : 2;
  Cost c;
  c.bytes = parts_->own->bytes() + parts_->ghost->bytes() + vectors * sizeof(T);
  c.flops = per_flop * double(entries_) / this->range().comm().size();
  c.messages = double(pattern_->send_ranks.size());
  c.message_bytes = double(pattern_->send_index.size()) * sizeof(T);
  return c;
}

template <Scalar T, Memory M>
Cost Csr<T, M>::adjoint_cost() const {
  Cost c = cost();
  c.messages = double(pattern_->receive_ranks.size());
  c.message_bytes = double(pattern_->ghost_count()) * sizeof(T);
  return c;
}

template <Scalar T, Memory M>
Rows<T> Csr<T, M>::rows() const {
  const auto& ghosts = pattern_->ghosts;
  const Global shift = this->domain().begin();
  const auto count = std::size_t(this->range().local_size());
  const LocalRows<T> ghost = parts_->ghost->rows(Local(count), pattern_->ghost_count());
  Rows<T> all;
  LocalRows<T> own;  // in host memory copied from the storage at once
  all.start.assign(count + 1, 0);
  if constexpr (std::same_as<M, Host>) {
    std::vector<Local> own_count(count, 0);
    parts_->own->count_entries(own_count);
    std::copy(own_count.begin(), own_count.end(), all.start.begin() + 1);
  } else {
    own = parts_->own->rows();
    for (std::size_t r = 0; r < count; ++r) all.start[r + 1] = own.start[r + 1] - own.start[r];
  }
  for (std::size_t r = 0; r < count; ++r) all.start[r + 1] += all.start[r] + ghost.start[r + 1] - ghost.start[r];
  const auto entries = std::size_t(all.start.back());
  all.column.reserve(entries), all.value.reserve(entries);
  all.column.resize(entries), all.value.resize(entries);
  // Ghosts below the own range, own columns, ghosts above it, so that columns ascend.
  std::vector<Global> begin;  // where the own columns begin
  if (!ghosts.empty() || !std::same_as<M, Host>) begin.assign(all.start.begin(), all.start.end() - 1);
  for (std::size_t r = 0; r < count && !ghosts.empty(); ++r) {
    Global g = ghost.start[r];
    const auto put = [&](Global& at) {
      all.column[std::size_t(at)] = ghosts[std::size_t(ghost.column[std::size_t(g)])];
      all.value[std::size_t(at++)] = ghost.value[std::size_t(g++)];
    };
    while (g < ghost.start[r + 1] && ghosts[std::size_t(ghost.column[std::size_t(g)])] < shift) put(begin[r]);
    for (Global at = all.start[r + 1] - (ghost.start[r + 1] - g); g < ghost.start[r + 1];) put(at);
  }
  if constexpr (std::same_as<M, Host>) {
    parts_->own->copy_rows(ghosts.empty() ? all.start.data() : begin.data(), shift, all.column.data(),
                           all.value.data());
  } else {
    for (std::size_t r = 0; r < count; ++r)
      for (Global k = own.start[r], at = begin[r]; k < own.start[r + 1]; ++k, ++at)
        all.column[std::size_t(at)] = shift + own.column[std::size_t(k)],
        all.value[std::size_t(at)] = own.value[std::size_t(k)];
  }
  return all;
}

template <Scalar T, Memory M>
int Csr<T, M>::unknowns_in_a_node() const requires std::same_as<M, Host> {
  const auto& space = this->range();
  for (int b = 6; b > 1; --b) {
    if (!space.comm().all(space.begin() % b == 0 && space.local_size() % b == 0)) continue;
    double sums[2] = {0, 0};
    parts_->own->add_node_couplings(b, sums);
    space.sum(sums, 2);
    if (sums[0] > 0.9 * sums[1]) return b;
  }
  return 1;
}

template <Scalar T, Memory M>
std::array<double, 2> Csr<T, M>::couplings(int b) const requires std::same_as<M, Host> {
  const auto& d = parts_->diagonal;
  const auto& ghost = *parts_->ghost;
  std::array<double, 2> sums{};
  parts_->own->add_couplings(d, b, sums.data());
  for (Local i = 0; i < ghost.count(); ++i) {
    const auto values = ghost.values_of(i);
    const auto columns = ghost.columns_of(i);
    for (std::size_t k = 0; k < values.size(); ++k) {
      const Global column = pattern_->ghosts[std::size_t(columns[k])];
      if ((column - this->domain().begin() - ghost.row(i)) % b != 0) continue;
      const double size = double(std::abs(values[k]));
      sums[0] += size;
      if (real(values[k] * conj(d[std::size_t(ghost.row(i))])) > 0) sums[1] += size;
    }
  }
  this->range().sum(sums.data(), 2);
  return sums;
}

template <Scalar T, Memory M>
std::vector<Local> Csr<T, M>::row_lengths() const requires std::same_as<M, Host> {
  std::vector<Local> count(std::size_t(this->range().local_size()));
  parts_->own->count_entries(count);
  for (Local i = 0; i < parts_->ghost->count(); ++i)
    count[std::size_t(parts_->ghost->row(i))] += Local(parts_->ghost->columns_of(i).size());
  return count;
}

template <Scalar T, Memory M>
LocalRows<T> Csr<T, M>::own_block() const {
  return parts_->own->rows();
}
template <Scalar T, Memory M>
LocalRows<T> Csr<T, M>::own_block(Local first, Local count) const requires std::same_as<M, Host> {
  return parts_->own->block(first, count);
}
template <Scalar T, Memory M>
SplitRows<T> Csr<T, M>::split_own_block(Local first, Local count,
                                        bool with_upper) const requires std::same_as<M, Host> {
  return parts_->own->split_block(first, count, with_upper);
}
template <Scalar T, Memory M>
Global Csr<T, M>::own_block_entries() const requires std::same_as<M, Host> {
  return parts_->own->entries();
}
template <Scalar T, Memory M>
bool Csr<T, M>::own_block_is_hermitian() const requires std::same_as<M, Host> {
  return parts_->own->mirrors_itself(parts_->diagonal);
}

template <Scalar T, Memory M>
const LocalMatrix<T, M>* Csr<T, M>::whole() const requires std::same_as<M, Host> {
  return this->domain().comm().size() == 1 ? parts_->own.get() : nullptr;
}

template <Scalar T, Memory M>
std::string Csr<T, M>::storage() const {
  return parts_->own->storage();
}

template <Scalar T, Memory M>
Format Csr<T, M>::format() const {
  return parts_->format;
}

}  // namespace tacit::op

#include "csr_powers_impl.hpp"
