// What algebraic multigrid refuses, and how its set-up is interrupted.
#include <tacit/comm/communicator.hpp>
#include <tacit/precond/amg.hpp>

#include "amg_problems.hpp"
#include "support/communicators.hpp"
#include "support/precond.hpp"
#include "support/reference.hpp"
#include "support/systems.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <thread>

namespace tacit::test {
namespace {

using layout::Space;
using precond::Amg;
using precond::AmgOptions;
using precond::Cycle;

TEST(Amg, SetUpEndsWhereTheUserAsksForIt) {
  const auto a = laplacian(40, 40, 1);
  const auto A = a.on(comm::Communicator::self());
  comm::set_interrupt_check([] { return true; });
  std::this_thread::sleep_for(std::chrono::milliseconds(60));  // checks are that far apart
  try {
    const Amg<double> M(*A);
    ADD_FAILURE() << "not interrupted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::interrupted);
  }
  comm::set_interrupt_check({});
}

TEST(Amg, NamesWhatIsOutOfRange) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = laplacian(9, 5, 1);
    const auto A = a.on(comm);
    const auto said = [&](const std::function<void(AmgOptions<double>&)>& change) {
      AmgOptions<double> o;
      change(o);
      return usage_error([&] { const Amg<double> M(*A, o); });
    };
    const auto expect = [&](const std::string& text, const std::function<void(AmgOptions<double>&)>& change) {
      EXPECT_NE(said(change).find(text), std::string::npos) << said(change);
    };
    expect("this one is U", [](auto& o) { o.cycle = Cycle::u; });
    expect("sweeps is 0", [](auto& o) { o.sweeps = 0; });
    expect("strength is -0.1", [](auto& o) { o.strength = -0.1; });
    expect("strength is 1", [](auto& o) { o.strength = 1; });
    expect("coarsest is 0", [](auto& o) { o.coarsest = 0; });
    expect("coarsest is 5000", [](auto& o) { o.coarsest = 5000; });
    expect("max_levels is 0", [](auto& o) { o.max_levels = 0; });
    expect("max_complexity is 0.5", [](auto& o) { o.max_complexity = 0.5; });
    expect("block is 0", [](auto& o) { o.block = 0; });
    expect("block is 46", [](auto& o) { o.block = 46; });
    // One rank gives vectors and the others none, or another number of them.
    if (comm.size() > 1) {
      const auto own = std::size_t(A->range().local_size());
      expect("near_null", [&](auto& o) { o.near_null.assign(comm.rank() == 0 ? own : 0, 1.0); });
      expect("near_null", [&](auto& o) { o.near_null.assign(comm.rank() == 0 ? own : 2 * own, 1.0); });
    }
    expect("near_null has 1 numbers", [](auto& o) { o.near_null.assign(1, 1.0); });
    const auto last = [&](double value) {
      return [&, value](AmgOptions<double>& o) {
        o.near_null.assign(std::size_t(A->range().local_size()), 1.0);
        if (A->range().end() == a.n && !o.near_null.empty()) o.near_null.back() = value;
      };
    };
    const std::string where = message(" in row ", a.n - 1, " of vector 0 (counted from 0), a row of rank ",
                                      A->range().partition().owner(a.n - 1), ";");
    expect("near_null has nan" + where, last(std::numeric_limits<double>::quiet_NaN()));
    expect("near_null has inf" + where, last(std::numeric_limits<double>::infinity()));
    expect("vector 1 of near_null (counted from 0) is zero", [&](auto& o) {
      for (Local i = 0; i < A->range().local_size(); ++i) o.near_null.insert(o.near_null.end(), {1.0, 0.0});
    });
    const Space rows = Space::distributed(comm, 4), columns = Space::distributed(comm, 5);
    op::Rows<double> none;
    none.start.assign(std::size_t(rows.local_size()) + 1, 0);
    const op::Csr<double> wide(rows, columns, none);
    EXPECT_NE(usage_error([&] { const Amg<double> M(wide); }).find("4 by 5"), std::string::npos);
  });
}

}  // namespace
}  // namespace tacit::test
