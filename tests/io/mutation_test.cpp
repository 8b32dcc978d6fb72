// Damaged files are refused with an Error or read correctly. Seeded; an environment variable raises the count.
#include "io/mutate.hpp"
#include "support/scalars.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tacit::io::test {
namespace {

template <class T>
class Mutations : public testing::Test {};
using tacit::test::Scalars;
TYPED_TEST_SUITE(Mutations, Scalars);

TYPED_TEST(Mutations, AreRefusedOrReadAsTheySay) {
  const char* count = std::getenv("TACIT_MUTATIONS");
  const std::uint64_t mutations = count ? std::strtoull(count, nullptr, 10) : 2000;
  const Folder folder;
  const Checker<TypeParam> checker(folder);
  std::uint64_t accepted = 0;
  for (std::uint64_t k = 0; k < mutations; ++k) try {
      accepted += checker.accepts(mutation(7, k));
    } catch (const std::exception& problem) {
      ADD_FAILURE() << "mutation " << k << ": " << problem.what();
    }
  EXPECT_GT(accepted, mutations / 50);
  EXPECT_LT(accepted, mutations);
}

TEST(Mutations, SeedsAreAccepted) {
  const Folder folder;
  for (const Seed& seed : seeds())
    EXPECT_TRUE(Checker<std::complex<double>>(folder).accepts(seed.kind == Kind::gzip ? gzip(seed.bytes) : seed.bytes))
        << seed.bytes;
}

// The check itself is tested: it must detect readers with typical errors.
template <class Break>
int problems_noticed(Break&& broken) {
  const Folder folder;
  Readers<std::complex<double>> readers;
  broken(readers);
  const Checker<std::complex<double>> checker(folder, readers);
  int noticed = 0;
  for (std::uint64_t k = 0; k < 400; ++k) try {
      checker.accepts(mutation(7, k));
    } catch (const std::logic_error&) {
      ++noticed;
    }
  return noticed;
}

TEST(Mutations, CheckNoticesReadersThat) {
  using T = std::complex<double>;
  const Readers<T> sound;
  EXPECT_EQ(problems_noticed([](auto&) {}), 0);
  EXPECT_GT(problems_noticed([&](auto& readers) {  // ignore the exponent after a D
              readers.triplets = [&](std::string_view bytes, int part, int parts) {
                auto triplets = sound.triplets(bytes, part, parts);
                for (auto& value : triplets.value)
                  if (value == 100.0) value = 1.0;
                return triplets;
              };
            }),
            0);
  EXPECT_GT(problems_noticed([&](auto& readers) {  // stop at the first text that cannot be parsed
              readers.dense = [&](std::string_view bytes) {
                for (;; bytes.remove_suffix(1)) try {
                    return sound.dense(bytes);
                  } catch (const Error&) {
                    if (bytes.empty()) throw;
                  }
              };
            }),
            0);
  EXPECT_GT(problems_noticed([&](auto& readers) {  // lose an entry between parts
              readers.triplets = [&](std::string_view bytes, int part, int parts) {
                auto triplets = sound.triplets(bytes, part, parts);
                if (part == 1 && !triplets.value.empty()) {
                  triplets.row.pop_back();
                  triplets.column.pop_back();
                  triplets.value.pop_back();
                }
                return triplets;
              };
            }),
            0);
  EXPECT_GT(problems_noticed([&](auto& readers) {  // throw an exception other than Error
              readers.dense = [&](std::string_view bytes) {
                try {
                  return sound.dense(bytes);
                } catch (const Error& error) {
                  throw std::logic_error(error.what());
                }
              };
            }),
            0);
}

}  // namespace
}  // namespace tacit::io::test
