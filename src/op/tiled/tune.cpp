#include <tacit/op/tiled_matrix.hpp>
#include "op/tuning.hpp"

#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/exec/parallel.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tacit::op {
namespace {

constexpr Local piece = 1024;  // neighbouring rows of a sample
constexpr Local pieces = 8;

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0) {
      std::replace(line.begin(), line.end(), '\t', ' ');
      return line.substr(std::min(line.size(), line.find(':') + 2));
    }
  return "a processor";
}

std::filesystem::path file_named(const std::string& path) {
  if (path == "-") return {};
  if (!path.empty()) return path;
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  if (cache && *cache) return std::filesystem::path(cache) / "tacit" / "tiled.tsv";
  if (home && *home) return std::filesystem::path(home) / ".cache" / "tacit" / "tiled.tsv";
  return {};
}

}  // namespace

TuningFile::TuningFile(const std::string& path) : path_(file_named(path)) {}

std::optional<TuningFile::Values> TuningFile::find(const std::string& key,
                                                   const std::function<bool(const Values&)>& makes_sense) const {
  if (path_.empty()) return {};
  std::ifstream in(path_);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string known;
    Values values{};
    if (std::getline(words, known, '\t') && known == key && (words >> values[0] >> values[1] >> values[2]) &&
        makes_sense(values))
      return values;
  }
  return {};
}

void TuningFile::keep(const std::string& key, const Values& values) const {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(path_.parent_path(), ignored);
  std::ofstream(path_, std::ios::app) << key << '\t' << values[0] << ' ' << values[1] << ' ' << values[2] << '\n';
}

std::string TuningFile::machine() {
  return processor() + '|' + std::to_string(exec::threads());
}

std::vector<TiledOptions> tuning_candidates(const TiledOptions& options) {
  std::vector<TiledOptions> candidates;
  for (const auto format : {TiledFormat::list, TiledFormat::bitmap, TiledFormat::plain})
    for (const int block : {64, 128, 512})
      for (const int tile : {32, 128}) {
        TiledOptions c = options;
        c.tune = false;
        if (c.format == TiledFormat::automatic) c.format = format;
        else if (c.format != format) continue;
        if (c.block_rows == 0) c.block_rows = block;
        if (c.tile == 0) c.tile = tile;
        if (options.columns <= 32 && options.tile == 0 && tile != 32) continue;  // a tile of 32 has all columns
        if (options.block_rows != 0 && block != 64) continue;
        if (options.tile != 0 && tile != 32) continue;
        if (format == TiledFormat::plain && options.format != format) {  // plain is tried with one size of blocks
          if (block != 64) continue;
          if (options.block_rows == 0) c.block_rows = 128;
        }
        c.row_order.clear(), c.column_order.clear();
        candidates.push_back(c);
      }
  return candidates;
}

template <class T>
TiledOptions tuned(Local rows, Local columns, const RowSource<T>& source, TiledOptions options) {
  options.tune = false;
  if (rows == 0 || columns == 0) return options;
  // The sample: some ranges of neighbouring rows, made once.
  std::vector<Local> begin;
  const Local count = std::min(pieces, Local((Global(rows) + piece - 1) / piece));
  for (Local p = 0; p < count; ++p) begin.push_back(count == 1 ? 0 : Local(Global(rows - piece) * p / (count - 1)));
  const Local sampled = count == 1 ? rows : piece * count;
  RowBuffer<T> sample;
  sample.start = {0};
  for (const Local b : begin) source(b, std::min<Local>(rows, b + piece), sample);
  if (sample.column.empty()) return options;
  const RowSource<T> of_sample = [&](Local first, Local last, RowBuffer<T>& out) {
    for (Local r = first; r < last; ++r) {
      for (auto i = std::size_t(sample.start[std::size_t(r)]); i < std::size_t(sample.start[std::size_t(r) + 1]); ++i)
        out.add(sample.column[i], sample.value[i]);
      out.end_row();
    }
  };

  const int k = options.columns;
  std::ostringstream key;
  key << TuningFile::machine() << '|' << sizeof(T) << '|' << int(options.values) << '|' << int(options.vectors) << '|'
      << int(options.format) << '|' << options.block_rows << '|' << options.tile << '|' << k << '|'
      << std::ilogb(double(columns)) << '|' << std::lround(2 * std::log2(double(sample.column.size()) / sampled));
  const TuningFile file(options.tuning_file);
  if (const auto known = file.find(key.str(), [](const TuningFile::Values& v) {
        return v[0] >= int(TiledFormat::list) && v[0] <= int(TiledFormat::plain) && v[1] > 0 && v[2] > 0;
      })) {
    options.format = TiledFormat((*known)[0]), options.block_rows = (*known)[1], options.tile = (*known)[2];
    return options;
  }

  exec::Array<T> x(std::size_t(columns) * std::size_t(k)), y(std::size_t(sampled) * std::size_t(k));
  std::fill_n(x.data(), x.size(), T(1));
  double best = 1e300;
  TiledOptions chosen = options;
  for (const auto& c : tuning_candidates(options)) {
    const TiledMatrix<T> matrix(sampled, columns, of_sample, c);
    double seconds = 1e300;
    for (int r = 0; r < 4; ++r) {
      const double start = wall_time();
      matrix.multiply(x.data(), k, y.data(), k, k);
      if (r > 0) seconds = std::min(seconds, wall_time() - start);
    }
    if (seconds < best)
      best = seconds, chosen.format = c.format, chosen.block_rows = c.block_rows, chosen.tile = c.tile;
  }
  file.keep(key.str(), {int(chosen.format), chosen.block_rows, chosen.tile});
  return chosen;
}

template TiledOptions tuned<float>(Local, Local, const RowSource<float>&, TiledOptions);
template TiledOptions tuned<double>(Local, Local, const RowSource<double>&, TiledOptions);

}  // namespace tacit::op
