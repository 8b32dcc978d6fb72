#include <gtest/gtest.h>
#include <tacit/base/described.hpp>
#include <tacit/base/error.hpp>
#include <tacit/base/free_memory.hpp>
#include <tacit/base/lapack.hpp>
#include <tacit/base/names.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/base/types.hpp>

#include <complex>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

using namespace tacit;

TEST(Error, CarriesKindAndValues) {
  try {
    require(false, "a sweep over ", 3, " and ", 4, " elements");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_STREQ(e.what(), "a sweep over 3 and 4 elements");
    EXPECT_FALSE(e.agreed());
    EXPECT_TRUE(e.as_agreed(1).agreed());
  }
  EXPECT_NO_THROW(require(true, "never built"));
}

namespace {
/// Files of control groups in a folder of their own.
class GroupFolder {
 public:
  GroupFolder() {
    char name[] = "/tmp/tacit-groups-XXXXXX";
    root_ = mkdtemp(name);
  }
  GroupFolder(const GroupFolder&) = delete;
  GroupFolder& operator=(const GroupFolder&) = delete;
  ~GroupFolder() { std::filesystem::remove_all(root_); }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  /// The limits of the control groups that a process in these groups has.
  std::vector<MemoryLimit> limits(const std::string& groups) const {
    write("groups", groups);
    std::vector<MemoryLimit> found;
    for (const MemoryLimit& one : memory_limits({(root_ / "groups").string(), root_.string()}))
      if (one.name.find("control group") != std::string::npos) found.push_back(one);
    return found;
  }

 private:
  std::filesystem::path root_;
};
}  // namespace

TEST(MemoryLimit, IsFoundInNestedGroupsOfBothVersions) {
  const GroupFolder folder;
  folder.write("memory.max", "max\n");
  folder.write("a/memory.max", "4000\n");
  folder.write("a/memory.current", "3500\n");
  folder.write("a/memory.stat", "anon 1000\ninactive_file 2000\nactive_file 500\n");
  folder.write("a/b/memory.max", "3000\n");
  folder.write("a/b/memory.current", "3100\n");
  ASSERT_EQ(folder.limits("0::/\n").size(), 0u);
  const auto two = folder.limits("0::/a/b\n");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].bytes, 3000u);
  EXPECT_EQ(two[0].free, 0u);
  EXPECT_EQ(two[1].bytes, 4000u);
  EXPECT_EQ(two[1].free, 3000u) << "pages that cache files are free";
  folder.write("memory/job/memory.limit_in_bytes", "5000\n");
  folder.write("memory/job/memory.usage_in_bytes", "2000\n");
  folder.write("memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 600\ntotal_active_file 400\n");
  folder.write("memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  const auto old = folder.limits("4:memory:/job\n3:cpuset:/a\n");
  ASSERT_EQ(old.size(), 1u);
  EXPECT_EQ(old[0].bytes, 5000u);
  EXPECT_EQ(old[0].free, 4000u);
  EXPECT_EQ(folder.limits("no group\n0:\n").size(), 0u);
}

TEST(MemoryLimit, IsNamedWhereMemoryDoesNotSuffice) {
  EXPECT_NO_THROW(require_memory(1));
  try {
    require_memory(std::size_t(1) << 62);
    if (total_memory() != SIZE_MAX) ADD_FAILURE() << "2^62 bytes are free";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::memory);
    const std::string text = e.what();
    EXPECT_NE(text.find("4611686018427387904 bytes were asked for"), text.npos) << text;
    EXPECT_NE(text.find("are free of"), text.npos) << text;
  }
  EXPECT_LE(least_memory_limit().free, least_memory_limit().bytes);
}

TEST(Message, PrintsTheShortestTextThatReadsBack) {
  EXPECT_EQ(message(0.8, " ", 0.8f, " ", 1.0 / 3, " ", 1.0f / 3, " ", -1e-300, " ", 3.0),
            "0.8 0.8 0.3333333333333333 0.33333334 -1e-300 3");
  EXPECT_EQ(message(1e-4, " ", 1e-4f, " ", 1e-5, " ", 1e5, " ", 1e15, " ", 1e16, " ", 0.0, " ", -0.0),
            "0.0001 0.0001 1e-05 100000 1000000000000000 1e+16 0 -0");
  EXPECT_EQ(message(std::complex<double>(0.1, -2), std::complex<float>(0.1f, 1e20f)), "(0.1,-2)(0.1,1e+20)");
  EXPECT_EQ(message(std::numeric_limits<double>::infinity(), ' ', -std::numeric_limits<float>::infinity()), "inf -inf");
  for (const double x : {0.1 + 0.2, 4.9406564584124654e-324, std::numeric_limits<double>::max(), 1e15 / 7, 123456789.0})
    EXPECT_EQ(std::strtod(message(x).c_str(), nullptr), x) << message(x);
  for (const float x : {0.1f, 1e-45f, std::numeric_limits<float>::max(), 16777217.0f})
    EXPECT_EQ(std::strtof(message(x).c_str(), nullptr), x) << message(x);
  const std::string text = "text";
  EXPECT_EQ(message(true, false, 'c', text, std::string_view("view"), "literal", text.c_str()),
            "10ctextviewliteraltext");
  EXPECT_EQ(message(std::numeric_limits<std::int64_t>::min(), ' ', std::numeric_limits<std::uint64_t>::max(), ' ',
                    short(-3), ' ', std::size_t(4)),
            "-9223372036854775808 18446744073709551615 -3 4");
  EXPECT_EQ(message(), "");
}

TEST(CheckedCast, RefusesWhatDoesNotFit) {
  EXPECT_EQ(checked_cast<Local>(Global(2147483647), "n"), 2147483647);
  EXPECT_THROW(checked_cast<Local>(Global(2147483648), "n"), Error);
  EXPECT_THROW(checked_cast<Local>(std::uint64_t(-1), "n"), Error);
}

TEST(Names, FindTheNearest) {
  enum class Colour { red, green };
  constexpr Names<Colour, 2> colours{"colour", {{{Colour::red, "red"}, {Colour::green, "green"}}}};
  EXPECT_EQ(colours.value("green"), Colour::green);
  try {
    (void)colours.value("gren");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean \"green\""), std::string::npos) << e.what();
  }
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

namespace {
struct Inner {
  float ceiling = 32;
  std::vector<int> groups;
};
struct Sample {
  Inner inner;
  int tile = 0;
  std::optional<std::string> order;
  int rows = 9;
};
std::span<const Option<Sample>> sample_options() {
  using O = Sample;
  static const std::vector<Option<O>> all{
      option<O>("ceiling", within(&O::inner, &Inner::ceiling), positive(), ""),
      option<O>("groups", within(&O::inner, &Inner::groups), at_least(1, "rank"), ""),
      option<O>("tile", &O::tile, Range{.least = 0, .most = 128, .needed = "a multiple of 8 up to 128", .step = 8}, ""),
      option<O>("order", &O::order, std::vector<std::string>{"natural", "greedy", "metis"}, "", "natural"),
      option<O>("rows", &O::rows, at_least(1, "row"), "").needing("order=greedy,metis"),
  };
  return all;
}
std::string refusal(const Sample& o) {
  try {
    check_values(sample_options(), o);
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}
}  // namespace

TEST(Described, ChecksNumbersListsMultiplesAndWhatAnOptionNeeds) {
  Sample o;
  EXPECT_EQ(refusal(o), "");
  o.tile = 12;
  EXPECT_EQ(refusal(o), "tile is 12; it takes a multiple of 8 up to 128");
  o.tile = 128, o.inner.groups = {3, 0};
  EXPECT_EQ(refusal(o), "groups is 3,0; it takes at least 1 rank");
  const auto all = sample_options();
  const auto& groups = find_option(all, "groups", "it");
  groups.set(o, std::vector<std::int64_t>{3, 6});
  EXPECT_EQ(o.inner.groups, (std::vector<int>{3, 6}));
  EXPECT_EQ(text_of(groups.get(o)), "3,6");
  find_option(all, "ceiling", "it").set(o, std::int64_t(4));
  EXPECT_EQ(o.inner.ceiling, 4.0f);
  EXPECT_EQ(refusal(o), "");
  o.rows = 5;
  EXPECT_EQ(refusal(o), "rows 5 goes with order greedy, metis; order is not given");
  const auto& order = find_option(all, "order", "it");
  order.set(o, std::string("natural"));
  EXPECT_EQ(refusal(o), "rows 5 goes with order greedy, metis; order is natural");
  order.set(o, std::string("metis"));
  EXPECT_EQ(refusal(o), "");
  EXPECT_THROW(order.set(o, std::string("rcm")), Error);
  order.set(o, {});
  EXPECT_FALSE(o.order);
}

TEST(Scalars, RealOnesStayReal) {
  static_assert(std::is_same_v<decltype(conj(1.0)), double>);
  static_assert(std::is_same_v<decltype(real(1.0f)), float>);
  EXPECT_EQ(conj(std::complex<double>(1, 2)), std::complex<double>(1, -2));
  EXPECT_EQ(abs2(std::complex<float>(3, 4)), 25.0f);
  EXPECT_FALSE(is_finite(std::complex<double>(0, INFINITY)));
}

TEST(Trace, RecordsSpansOfAllThreadsOnlyWhenOn) {
  (void)Trace::take();
  { const Span span("silent", "test"); }
  EXPECT_TRUE(Trace::take().empty());
  Trace::start();
  {
    const Span outer("outer", "test", 8);
    std::jthread([] { const Span inner("inner", "test"); });
  }
  Trace::stop();
  const auto events = Trace::take();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_STREQ(events[0].name, "inner");
  EXPECT_STREQ(events[1].name, "outer");
  EXPECT_EQ(events[1].bytes, 8);
  EXPECT_LE(events[1].begin, events[0].begin);
  EXPECT_GE(events[1].end, events[0].end);
  EXPECT_NE(events[0].thread, events[1].thread);
  const std::string json = to_chrome_json(events, events[1].begin);
  EXPECT_NE(json.find("\"name\":\"outer\",\"cat\":\"test\",\"ph\":\"X\",\"ts\":0.000"), std::string::npos) << json;
}

TEST(Lapack, SolvesASmallProblem) {
  EXPECT_TRUE(lapack::works());
}

// The BLAS uses kernels for this processor even where it is older than the processor, and their products are correct.
TEST(Lapack, MultipliesWithKernelsOfTheProcessor) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && !std::getenv("OPENBLAS_CORETYPE")) {
    EXPECT_NE(lapack::kernels(), "Prescott");
  }
#endif
  const auto check = []<class T>(T) {
    for (const int size : {1, 7, 33, 150}) {
      const int m = size, n = size + 3, k = 2 * size;
      std::vector<T> a(std::size_t(m) * k), b(std::size_t(k) * n), c(std::size_t(m) * n, T(3));
      for (std::size_t i = 0; i < a.size(); ++i) a[i] = T(float(i % 17) - 8);
      for (std::size_t i = 0; i < b.size(); ++i) b[i] = T(float(i % 13) - 6);
      lapack::gemm('N', 'N', m, n, k, T(2), a.data(), m, b.data(), k, T(-1), c.data(), m);
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
          T sum(0);
          for (int l = 0; l < k; ++l) sum += a[std::size_t(i + l * m)] * b[std::size_t(l + j * k)];
          ASSERT_EQ(c[std::size_t(i + j * m)], T(2) * sum - T(3)) << size << ": " << i << ", " << j;  // exact
        }
    }
  };
  check(float{}), check(double{}), check(std::complex<float>{}), check(std::complex<double>{});
}
