#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/io/matrix_market.hpp>

#include "output.hpp"

#include <charconv>

namespace tacit::io {
namespace {

// Writes numbers with blanks between them.
class Line {
 public:
  explicit Line(detail::Output& output) : output_(output) {}
  template <class Number>
  Line& operator<<(Number number) {
    char text[40] = " ";  // the longest number has 24 characters
    const char* end = std::to_chars(text + 1, text + sizeof text, number).ptr;
    const char* begin = text + empty_;
    output_.write({begin, std::size_t(end - begin)});
    empty_ = false;
    return *this;
  }
  template <class R>
  Line& operator<<(const std::complex<R>& number) {
    return *this << number.real() << number.imag();
  }
  void end() {
    output_.write("\n");
    empty_ = true;
  }

 private:
  detail::Output& output_;
  bool empty_ = true;
};

const char* symmetry_word(Symmetry symmetry) {
  switch (symmetry) {
    case Symmetry::general:
      return "general";
    case Symmetry::symmetric:
      return "symmetric";
    case Symmetry::skew_symmetric:
      return "skew-symmetric";
    case Symmetry::hermitian:
      return "hermitian";
  }
  return "general";
}

template <Scalar T>
std::string banner(const char* format, Symmetry symmetry) {
  return message("%%MatrixMarket matrix ", format, is_complex<T> ? " complex " : " real ", symmetry_word(symmetry),
                 '\n');
}

template <Scalar T>
void check(const std::string& path, const Triplets<T>& matrix, Symmetry symmetry) {
  const std::size_t n = matrix.value.size();
  require(matrix.row.size() == n && matrix.column.size() == n, "triplets for ", path, " have ", matrix.row.size(),
          " rows, ", matrix.column.size(), " columns and ", n, " values");
  require(matrix.rows >= 0 && matrix.columns >= 0, "the matrix for ", path, " is ", matrix.rows, " x ", matrix.columns);
  require(symmetry == Symmetry::general || matrix.rows == matrix.columns, "the matrix for ", path, " is ", matrix.rows,
          " x ", matrix.columns, ", not square, and cannot be ", symmetry_word(symmetry));
  require(symmetry != Symmetry::hermitian || is_complex<T>, "the matrix for ", path, " is real: write it as symmetric");
  for (std::size_t k = 0; k < n; ++k) {
    const Global row = matrix.row[k], column = matrix.column[k];
    require(row >= 0 && row < matrix.rows && column >= 0 && column < matrix.columns, "triplet ", k, " for ", path,
            " is at (", row, ", ", column, "), outside of ", matrix.rows, " x ", matrix.columns);
    require(is_finite(matrix.value[k]), "triplet ", k, " for ", path, ", at (", row, ", ", column, "), is ",
            matrix.value[k]);
    if (symmetry == Symmetry::general || row > column) continue;
    require(row == column && symmetry != Symmetry::skew_symmetric, "triplet ", k, " for ", path, " is at (", row, ", ",
            column, "), but a ", symmetry_word(symmetry), " file holds the lower triangle only");
    if constexpr (is_complex<T>)
      require(symmetry != Symmetry::hermitian || matrix.value[k].imag() == 0, "triplet ", k, " for ", path, ", at (",
              row, ", ", column, "), is ", matrix.value[k], ", but the diagonal of a hermitian matrix is real");
  }
}

}  // namespace

template <Scalar T>
void write_matrix_market(const std::string& path, const Triplets<T>& matrix, Symmetry symmetry) {
  check(path, matrix, symmetry);
  const std::size_t n = matrix.value.size();
  const Span span("write_matrix_market", "io", Global(n * (16 + sizeof(T))));
  detail::Output output(path, detail::wants_gzip(path));
  output.write(banner<T>("coordinate", symmetry));
  Line line(output);
  (line << matrix.rows << matrix.columns << n).end();
  for (std::size_t k = 0; k < n; ++k) (line << matrix.row[k] + 1 << matrix.column[k] + 1 << matrix.value[k]).end();
  output.finish();
}

template <Scalar T>
void write_matrix_market_array(const std::string& path, const Dense<T>& block) {
  Global elements = 0;
  require(block.rows >= 0 && block.columns >= 0 && !__builtin_mul_overflow(block.rows, block.columns, &elements) &&
              Global(block.value.size()) == elements,
          "the block for ", path, " is ", block.rows, " x ", block.columns, ", but has ", block.value.size(),
          " values");
  for (std::size_t k = 0; k < block.value.size(); ++k)
    require(is_finite(block.value[k]), "element ", k, " for ", path, " is ", block.value[k]);
  const Span span("write_matrix_market_array", "io", Global(block.value.size() * sizeof(T)));
  detail::Output output(path, detail::wants_gzip(path));
  output.write(banner<T>("array", Symmetry::general));
  Line line(output);
  (line << block.rows << block.columns).end();
  for (const T& value : block.value) (line << value).end();
  output.finish();
}

#define TACIT_INSTANTIATE(T)                                                              \
  template void write_matrix_market<T>(const std::string&, const Triplets<T>&, Symmetry); \
  template void write_matrix_market_array<T>(const std::string&, const Dense<T>&);
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::io
