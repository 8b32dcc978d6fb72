// HMatrix as arrays, for files and pickles: tables and numbers as they lie in memory.
#include "saved.hpp"

#include "parts.hpp"
#include "storage_impl.hpp"

#include <algorithm>
#include <bit>
#include <complex>
#include <string>
#include <tuple>

namespace tacit::op {
namespace {

using namespace detail;

// To be raised with every change of what is saved.
constexpr std::int64_t version = 2;

template <class Report>
auto numbers_of(Report& r) {
  return std::tie(r.rows, r.columns, r.dense_blocks, r.low_rank_blocks, r.mean_rank, r.max_rank, r.bytes, r.full_bytes,
                  r.single_bytes, r.fixed_bytes, r.index_bytes, r.dense_fraction, r.entries_evaluated,
                  r.estimated_error, r.measured_error, r.measured_error_ones, r.error_bound, r.confidence, r.norm,
                  r.set_up_seconds, r.least_bytes, r.most_bytes);
}

// What the bytes of a file depend on besides its version.
template <Scalar T>
std::vector<std::int64_t> signature(const comm::Communicator& comm) {
  return {version,
          std::endian::native == std::endian::little ? 1 : 0,
          std::int64_t(sizeof(T)),
          is_complex<T> ? 1 : 0,
          std::int64_t(sizeof(Cluster)),
          std::int64_t(sizeof(HMatrixOptions)),
          std::int64_t(sizeof(TreeOptions)),
          std::int64_t(comm.size()),
          std::int64_t(comm.rank())};
}

void save_tree(std::vector<SavedPart>& parts, const std::string& name, const ClusterTree& tree) {
  save_copy<std::int64_t>(parts, name + ".numbers", {tree.dimension(), tree.depth()});
  save_copy<TreeOptions>(parts, name + ".options", {tree.options()});
  save(parts, name + ".order", tree.order());
  save(parts, name + ".clusters", tree.clusters());
  save(parts, name + ".points", tree.points());
  save(parts, name + ".boxes", tree.boxes());
}
template <class S>
S only(const std::vector<SavedPart>& parts, const std::string& name) {
  const auto all = loaded<S>(parts, name);
  if (all.size() != 1) throw Error(ErrorKind::input, message("the part '", name, "' has ", all.size(), " items"));
  return all[0];
}
std::shared_ptr<const ClusterTree> loaded_tree(const std::vector<SavedPart>& parts, const std::string& name) {
  const auto numbers = loaded<std::int64_t>(parts, name + ".numbers");
  if (numbers.size() != 2) throw Error(ErrorKind::input, "the part '" + name + ".numbers' is damaged");
  return std::make_shared<const ClusterTree>(
      int(numbers[0]), loaded<double>(parts, name + ".points"), loaded<double>(parts, name + ".boxes"),
      only<TreeOptions>(parts, name + ".options"), loaded<Global>(parts, name + ".order"),
      loaded<Cluster>(parts, name + ".clusters"), int(numbers[1]));
}

}  // namespace

ClusterTree::ClusterTree(int dimension, std::vector<double> points, std::vector<double> boxes,
                         const TreeOptions& options, std::vector<Global> order, std::vector<Cluster> clusters,
                         int depth)
    : dimension_(dimension),
      points_(std::move(points)),
      boxes_(std::move(boxes)),
      options_(options),
      order_(std::move(order)),
      clusters_(std::move(clusters)),
      depth_(depth) {
  const std::size_t d = std::size_t(std::max(dimension_, 0));
  require(d > 0 && !clusters_.empty() && points_.size() == order_.size() * d &&
              boxes_.size() == clusters_.size() * 2 * d && clusters_[0].size() == Local(order_.size()),
          "a cluster tree whose parts do not fit together");
}

namespace detail {

template <Scalar T>
void Storage<T>::save(std::vector<SavedPart>& parts) const {
  save_copy<std::int64_t>(
      parts, "storage.numbers",
      {first_row_, rows_, columns_, std::int64_t(made_), std::int64_t(work_columns_), std::int64_t(sizeof(Panel)),
       std::int64_t(sizeof(Factor)), std::int64_t(sizeof(Kept)), std::int64_t(sizeof(Piece))});
  save_copy<double>(parts, "storage.flops", {flops_});
  detail::save(parts, "storage.panels", panels_);
  detail::save(parts, "storage.runs", runs_);
  detail::save(parts, "storage.factors", factors_);
  detail::save(parts, "storage.t_scale", t_scale_);
  detail::save(parts, "storage.panel_cost", panel_cost_);
  detail::save(parts, "storage.factor_cost", factor_cost_);
  detail::save(parts, "storage.held", held_);
  detail::save(parts, "storage.kept", kept_);
  detail::save(parts, "storage.pieces", pieces_);
  each_format([&](auto f) {
    detail::save(parts, message("panels.", int(f)), std::get<f>(panel_data_));
    detail::save(parts, message("factors.", int(f)), std::get<f>(factor_data_));
  });
}

template <Scalar T>
Storage<T>::Storage(const std::vector<SavedPart>& parts) {
  const auto numbers = loaded<std::int64_t>(parts, "storage.numbers");
  const auto flops = loaded<double>(parts, "storage.flops");
  const std::vector<std::int64_t> sizes{std::int64_t(sizeof(Panel)), std::int64_t(sizeof(Factor)),
                                        std::int64_t(sizeof(Kept)), std::int64_t(sizeof(Piece))};
  if (numbers.size() != 5 + sizes.size() || !std::equal(sizes.begin(), sizes.end(), numbers.begin() + 5) ||
      flops.size() != 1)
    throw Error(ErrorKind::input, "a saved hmatrix of another build of tacit");
  first_row_ = Local(numbers[0]), rows_ = Local(numbers[1]), columns_ = Local(numbers[2]);
  made_ = std::uint64_t(numbers[3]), work_columns_ = std::size_t(numbers[4]), flops_ = flops[0];
  panels_ = loaded<Panel>(parts, "storage.panels");
  runs_ = loaded<Run>(parts, "storage.runs");
  factors_ = loaded<Factor>(parts, "storage.factors");
  t_scale_ = loaded<double>(parts, "storage.t_scale");
  panel_cost_ = loaded<std::size_t>(parts, "storage.panel_cost");
  factor_cost_ = loaded<std::size_t>(parts, "storage.factor_cost");
  held_ = loaded<Held>(parts, "storage.held");
  kept_ = loaded<Kept>(parts, "storage.kept");
  pieces_ = loaded<Piece>(parts, "storage.pieces");
  each_format([&](auto f) {
    const auto take = [&](const std::string& name, auto& view) {
      const auto all = seen<Stored<f>>(parts, name);
      view = {all.data(), all.size()};
      owners_.push_back(part_of(parts, name).owner);
    };
    take(message("panels.", int(f)), std::get<f>(panel_data_));
    take(message("factors.", int(f)), std::get<f>(factor_data_));
  });
  if (panel_cost_.size() != panels_.size() + 1 || factor_cost_.size() != factors_.size() + 1)
    throw Error(ErrorKind::input, "a saved hmatrix whose parts do not fit together");
}

}  // namespace detail

template <Scalar T>
std::vector<SavedPart> HMatrix<T>::saved() const {
  std::vector<SavedPart> parts;
  save_copy(parts, "signature", signature<T>(this->range().comm()));
  save_tree(parts, "rows", *parts_->rows);
  if (parts_->columns != parts_->rows) save_tree(parts, "columns", *parts_->columns);
  save_copy<HMatrixOptions>(parts, "options", {options_});
  save(parts, "cuts", parts_->cuts);
  save(parts, "diagonal", parts_->diagonal);
  save(parts, "touched", parts_->touched);
  std::vector<double> numbers{largest_};
  std::apply([&](const auto&... n) { (numbers.push_back(double(n)), ...); }, numbers_of(report_));
  save_copy(parts, "report", std::move(numbers));
  save(parts, "ranks", report_.ranks);
  std::string text;
  for (const std::string& warning : report_.warnings) text += warning + '\n';
  save_copy(parts, "warnings", std::vector<char>(text.begin(), text.end()));
  parts_->storage->save(parts);
  if (parts_->nested) parts_->nested->save(parts);
  return parts;
}

template <Scalar T>
HMatrix<T>::HMatrix(Space range, Space domain, const std::vector<SavedPart>& saved)
    : Operator<T, Host>(std::move(range), std::move(domain)), parts_(std::make_unique<Parts>()) {
  const auto& comm = this->range().comm();
  comm::collective(comm, [&] {
    const auto made = loaded<std::int64_t>(saved, "signature"), here = signature<T>(comm);
    if (made != here)
      throw Error(
          ErrorKind::input,
          made.size() == here.size() && made[0] == here[0] && made[7] != here[7]
              ? message("the hmatrix was saved on ", made[7], " ranks and cannot be loaded on ", here[7])
              : message("the hmatrix was saved by another version of tacit, for another machine, scalar or rank"));
    parts_->rows = loaded_tree(saved, "rows");
    const bool two = std::any_of(saved.begin(), saved.end(), [](const auto& p) { return p.name == "columns.order"; });
    parts_->columns = two ? loaded_tree(saved, "columns") : parts_->rows;
    options_ = only<HMatrixOptions>(saved, "options");
    parts_->cuts = loaded<Global>(saved, "cuts");
    parts_->diagonal = loaded<T>(saved, "diagonal");
    parts_->touched = loaded<char>(saved, "touched");
    const auto numbers = loaded<double>(saved, "report");
    const auto fields = numbers_of(report_);
    if (numbers.size() != 1 + std::tuple_size_v<decltype(fields)> ||
        parts_->cuts.size() != std::size_t(comm.size()) + 1 || parts_->rows->size() != this->range().size() ||
        parts_->columns->size() != this->domain().size() ||
        parts_->touched.size() != std::size_t(parts_->columns->size()))
      throw Error(ErrorKind::input, "a saved hmatrix whose parts do not fit together");
    largest_ = numbers[0];
    std::size_t at = 0;
    std::apply([&](auto&... n) { ((n = std::remove_cvref_t<decltype(n)>(numbers[++at])), ...); }, fields);
    report_.ranks = loaded<Global>(saved, "ranks");
    std::string line;
    for (const char c : loaded<char>(saved, "warnings"))
      if (c == '\n') report_.warnings.push_back(std::exchange(line, {}));
      else line += c;
    parts_->first = Local(parts_->cuts[std::size_t(comm.rank())]);
    parts_->count = Local(parts_->cuts[std::size_t(comm.rank()) + 1]) - parts_->first;
    parts_->storage = std::make_unique<detail::Storage<T>>(saved);
    if (options_.nested) {
      parts_->nested = std::make_unique<detail::NestedField<T>>(saved);
      parts_->nested->connect(comm);
    }
    exchange_patterns();
  });
}

#define TACIT_INSTANTIATE(T)                                             \
  template void detail::Storage<T>::save(std::vector<SavedPart>&) const; \
  template detail::Storage<T>::Storage(const std::vector<SavedPart>&);   \
  template std::vector<SavedPart> HMatrix<T>::saved() const;             \
  template HMatrix<T>::HMatrix(Space, Space, const std::vector<SavedPart>&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op
