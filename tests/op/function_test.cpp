// Operators from callables: exceptions in them, and refused uses.
#include <gtest/gtest.h>
#include <tacit/op/compose.hpp>
#include <tacit/op/function.hpp>
#include <tacit/op/scaled.hpp>

#include "support/communicators.hpp"

#include <stdexcept>

using namespace tacit;
using namespace tacit::op;
using comm::Communicator;
using layout::Vector;
using test::on_ranks;

namespace {

TEST(Function, ThatThrowsOnOneRankThrowsOnAll) {
  on_ranks([](const Communicator& comm) {
    const auto space = Space::distributed(comm, 10);
    bool broken = true;
    const auto f = std::make_shared<Function<double>>(space, space, [&](const double* x, double* y, int k) {
      if (broken && comm.rank() == comm.size() - 1) throw std::runtime_error("the callable broke");
      std::copy_n(x, space.local_size() * k, y);
    });
    const auto twice = sum(1.0, f, 1.0, f);
    Vector<double> x(space), y(space);
    layout::fill(x, 3.0);
    for (int round = 0; round < 2; ++round) {
      try {
        twice->apply(x, y);
        ADD_FAILURE() << "nothing was thrown on rank " << comm.rank();
      } catch (const std::exception& e) {
        EXPECT_NE(std::string(e.what()).find("the callable broke"), std::string::npos) << e.what();
        if (comm.size() > 1) {
          EXPECT_NE(std::string(e.what()).find("rank " + std::to_string(comm.size() - 1)), std::string::npos)
              << e.what();
        }
      }
    }
    broken = false;
    twice->apply(x, y);
    for (double v : y.to_host()) EXPECT_EQ(v, 6.0);
  });
}

TEST(Function, RefusesWhatItCannotUse) {
  on_ranks(
      [](const Communicator& comm) {
        const auto space = Space::distributed(comm, 2 * comm.size());
        const auto copy = [](const double*, double*, int) {};
        EXPECT_THROW(Function<double>(space, space, Function<double>::Callable{}), Error);
        EXPECT_THROW(Function<double>(space, space, copy, {}, std::vector<double>(3)), Error);
        EXPECT_FALSE(Function<double>(space, space, copy).has_adjoint());
        EXPECT_FALSE(Function<double>(space, space, copy).has_diagonal());
        EXPECT_EQ(Function<double>(space, space, copy, {}, {1, 2}).diagonal(), (std::vector<double>{1, 2}));
        EXPECT_EQ(Function<double>(space, space, copy, {}, {}, "mine").name(), "mine");
      },
      {1, 3});
}

TEST(Compose, RefusesPartsThatDoNotFit) {
  on_ranks(
      [](const Communicator& comm) {
        const auto a = Space::distributed(comm, 5), b = Space::distributed(comm, 6);
        const auto none = [](const double*, double*, int) {};
        const auto square = std::make_shared<Function<double>>(a, a, none);
        const auto wide = std::make_shared<Function<double>>(a, b, none);
        EXPECT_THROW(product(wide, square), Error);
        EXPECT_THROW(sum(1.0, wide, 1.0, square), Error);
        EXPECT_THROW(shift(wide, 1.0), Error);
        EXPECT_THROW(adjoint(square), Error);
        EXPECT_THROW(transpose(square), Error);
        EXPECT_THROW(scale(Vector<double>(b), square, Vector<double>(a)), Error);
        EXPECT_THROW(product(std::shared_ptr<Function<double>>(), square), Error);
        EXPECT_THROW(Diagonal<double>(Vector<double>(a, 2)), Error);
        EXPECT_FALSE(product(square, square)->has_adjoint());
        EXPECT_EQ(product(square, wide)->domain(), b);
      },
      {1, 2});
}

TEST(Compose, ReportsFaultsOfItsParts) {
  on_ranks([](const Communicator& comm) {
    const auto space = Space::distributed(comm, 7);
    Vector<double> d(space);
    layout::fill(d, 2.0);
    if (space.begin() <= 5 && 5 < space.end()) d.data()[5 - space.begin()] = NAN;
    const auto bad = std::make_shared<Diagonal<double>>(d);
    const auto good = std::make_shared<Identity<double>>(space);
    EXPECT_NE(bad->fault().find("row 5"), std::string::npos);
    for (const OperatorPointer<double>& a : std::initializer_list<OperatorPointer<double>>{
             product(good, bad), sum(1.0, good, 1.0, bad), shift(bad, 1.0), adjoint(bad), transpose(bad),
             scale(Vector<double>(space), bad, Vector<double>(space))})
      EXPECT_EQ(a->fault(), bad->fault()) << a->name();
    EXPECT_EQ(Scaled<double>(*bad, 2.0).fault(), bad->fault());
    EXPECT_NE(shift(good, std::numeric_limits<double>::infinity())->fault(), "");
    EXPECT_NE(sum(double(NAN), good, 1.0, good)->fault(), "");
  });
}

TEST(Compose, RefusesAThirdProduct) {
  const auto space = Space::distributed(Communicator::self(), 4);
  const auto one = std::make_shared<Identity<double>>(space);
  const auto a = product(one, one);
  Vector<double> x(space), y(space), z(space), w(space);
  auto first = a->start(x, y);
  auto second = a->start(x, z);
  EXPECT_THROW(a->apply(x, w), Error);
  first.wait();
  a->apply(x, w);
  second.wait();
}

}  // namespace
