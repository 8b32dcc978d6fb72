// Failures: all ranks throw the same error out of the same call, abandoned operations give no result, no rank waits for
// a failed one, and later operations work.
#include <gtest/gtest.h>
#include <tacit/base/sanitizers.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/comm/exchange.hpp>
#include <tacit/layout/space.hpp>

#include "support/communicators.hpp"
#include "support/faulty.hpp"
#include "support/group.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <thread>

#ifdef __linux__
#include <sys/resource.h>
#include <unistd.h>
#endif

using namespace tacit;
using namespace std::chrono_literals;
using comm::Communicator;
using test::on_ranks;

namespace {

constexpr const char* nothing = "nothing was thrown";

// The text of the error that f throws inside a collective call.
std::string thrown(const Communicator& c, const std::function<void()>& f) {
  try {
    comm::collective(c, f);
  } catch (const Error& e) {
    EXPECT_TRUE(e.agreed() || c.size() == 1);
    return e.what();
  } catch (const std::exception& e) {
    return std::string("no Error: ") + e.what();
  }
  return nothing;
}

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

template <class F>
ErrorKind kind_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.kind();
  }
  ADD_FAILURE() << nothing;
  return ErrorKind::environment;
}

// All ranks have the same text; compared over a communicator that has not failed.
void expect_alike(const Communicator& c, const std::string& text) {
  for (const auto& t : c.all_gather_bytes(std::as_bytes(std::span(text))))
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(t.data()), t.size()), text);
}

void expect_works(const Communicator& c) {
  std::string gathered, expected;
  EXPECT_EQ(thrown(c,
                   [&] {
                     EXPECT_EQ(c.all_sum(Global(1)), c.size());
                     for (int r : c.all_gather(c.rank())) gathered += std::to_string(r);
                     for (int r = 0; r < c.size(); ++r) expected += std::to_string(r);
                     EXPECT_EQ(gathered, expected);
                   }),
            nothing);
}

bool last(const Communicator& c) {
  return c.rank() == c.size() - 1;
}

// A pattern in which each rank needs two elements of the next one.
std::shared_ptr<const comm::Pattern> ring(const Communicator& c) {
  const auto partition = layout::Partition::blocks(4 * c.size(), c.size());
  const Global first = partition.begin((c.rank() + 1) % c.size());
  return std::make_shared<const comm::Pattern>(comm::Pattern::build(c, partition.offsets(), {first, first + 1}));
}

void exchange_once(comm::Exchange& e) {
  const int slot = e.open();
  auto* out = reinterpret_cast<double*>(e.outgoing(slot));
  for (std::size_t i = 0; i < e.pattern().send_index.size(); ++i) out[i] = e.comm().rank();
  e.post(slot);
  e.wait(slot);
  EXPECT_EQ(*reinterpret_cast<const double*>(e.incoming(slot)), (e.comm().rank() + 1) % e.comm().size());
  e.close(slot);
}

struct AtEnd {
  std::function<void()> f;
  ~AtEnd() { f(); }
};

// A transport with the smallest range of tags that is allowed.
class FewTags final : public test::FaultyTransport {
 public:
  explicit FewTags(std::shared_ptr<comm::Transport> inner) : FaultyTransport(std::move(inner), 0) {}
  int largest_tag() const override { return 32767; }
  std::shared_ptr<Transport> duplicate() override { return std::make_shared<FewTags>(FaultyTransport::duplicate()); }
};

TEST(Failure, AtAnEarlierPositionIsThrownOutOfTheCommonCall) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    const Communicator d = c.duplicate();
    for (int round = 0; round < 3; ++round) {
      std::string inside = nothing;
      bool went_on = false;
      const std::string text = thrown(d, [&] {
        comm::collective(d, [] {});
        if (last(d)) {
          std::this_thread::sleep_for(20ms);
          throw Error(ErrorKind::input, "before the inner call");
        }
        try {
          comm::collective(d, [&] { comm::collective(d, [&] { (void)d.all_sum(Global(1)); }); });
        } catch (const Error& e) {
          inside = e.what();
        } catch (const comm::PeerFailure&) {
          if (round == 2) throw;
        }
        (void)d.all_sum(Global(1));
        went_on = true;
      });
      EXPECT_EQ(inside, nothing);
      EXPECT_FALSE(went_on);
      EXPECT_TRUE(has(text, "before the inner call")) << text;
      expect_alike(c, text);
      EXPECT_EQ(d.all_sum(Global(100)), 100 * d.size());
    }
    expect_works(d);
  });
}

TEST(Failure, InTheInnerCallOfAllMayBeCaughtThere) {
  on_ranks([](const Communicator& c) {
    const Communicator d = c.duplicate();
    const std::string text = thrown(d, [&] {
      const std::string inner = thrown(d, [&] {
        if (last(d)) throw Error(ErrorKind::input, "in the inner call");
        (void)d.all_sum(Global(1));
      });
      EXPECT_TRUE(has(inner, "in the inner call")) << inner;
      EXPECT_EQ(d.all_sum(Global(1)), d.size());
    });
    EXPECT_EQ(text, nothing);
    expect_works(d);
  });
}

TEST(Failure, GivesNoResultOfAbandonedOperations) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    const auto pattern = ring(c);
    comm::Exchange exchange(c, pattern, 8);
    double x = c.rank();
    auto done = c.start_sum(&x, 1), pending = c.start_sum(&x, 1);
    auto sums = c.sum(exec::Sums<1, double>{{5.0}});
    while (!done.test()) std::this_thread::yield();
    const int slot = exchange.open();
    exchange.post(slot);
    (void)thrown(c, [&] {
      if (last(c)) throw Error(ErrorKind::usage, "one solve fails");
    });
    for (auto* sum : {&done, &pending}) {
      EXPECT_EQ(kind_of([&] { (void)sum->test(); }), ErrorKind::usage);
      EXPECT_EQ(kind_of([&] { sum->wait(&x); }), ErrorKind::usage);
    }
    EXPECT_EQ(kind_of([&] { (void)sums.wait(); }), ErrorKind::usage);
    exchange_once(exchange);  // reuses the abandoned exchange's slot, and gets its own data
    const int next = exchange.open();
    exchange.post(next);
    EXPECT_EQ(kind_of([&] { exchange.wait(slot); }), ErrorKind::usage);
    EXPECT_EQ(kind_of([&] { (void)exchange.test(slot); }), ErrorKind::usage);
    EXPECT_EQ(kind_of([&] { (void)exchange.wait_any(slot); }), ErrorKind::usage);
    EXPECT_EQ(kind_of([&] { (void)exchange.incoming(slot); }), ErrorKind::usage);
    exchange.close(slot);
    exchange.wait(next);
    exchange.close(next);
    expect_works(c);
  });
}

// What interrupts the agreement on an error comes after that error's text, out of the outermost call.
TEST(Failure, OfAnAgreementDoesNotHideTheErrorItself) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    const auto transport = std::make_shared<test::FaultyTransport>(c.transport().duplicate(), 0);
    const Communicator d(transport);
    const auto kind = kind_of([&] {
      comm::collective(d, [&] {
        comm::collective(d, [&] {
          if (last(d)) {
            transport->strike_at(1);
            throw Error(ErrorKind::input, "the first error");
          }
          (void)d.all_sum(Global(1));
        });
      });
    });
    EXPECT_EQ(kind, ErrorKind::input);
    transport->disarm();
    for (int i = 0; i < 2; ++i) EXPECT_EQ(thrown(d, [] {}).find("the communicator is lost"), 0u);
  });
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    const auto transport = std::make_shared<test::FaultyTransport>(c.transport().duplicate(), 0);
    const Communicator d(transport);
    const std::string text = thrown(d, [&] {
      comm::collective(d, [&] {
        if (!last(d)) return (void)d.all_sum(Global(1));
        transport->strike_at(1);
        throw Error(ErrorKind::input, "the first error");
      });
    });
    for (const char* part : {"the first error", "is lost", "injected fault"}) EXPECT_TRUE(has(text, part)) << text;
    expect_alike(c, text);
  });
}

TEST(Failure, ReachesRanksThatWaitOnAnotherCommunicator) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    for (const bool in_a_call : {false, true}) {
      const Communicator d = c.duplicate(), e = c.duplicate();
      const std::string text = thrown(e, [&] {
        if (last(e)) throw Error(ErrorKind::usage, "before it comes to the other communicator");
        if (in_a_call) comm::collective(d, [&] { (void)d.all_sum(Global(1)); });
        else (void)d.all_sum(Global(1));
      });
      EXPECT_TRUE(has(text, "before it comes to")) << text;
      expect_alike(c, text);
      expect_works(e);
      // d was abandoned in the middle of an operation: the next call on it throws on all ranks, and then it works.
      const std::string next = thrown(d, [&] { (void)d.all_sum(Global(1)); });
      EXPECT_TRUE(has(next, "because of a failure on another one")) << next;
      expect_alike(c, next);
      expect_works(d);
    }
  });
}

// The failing rank is in the middle of a sum on another communicator that the other ranks have not begun.
TEST(Failure, OfARankThatWaitsOnAnotherCommunicatorKeepsThatConsistent) {
  static thread_local bool impatient = false;
  comm::set_interrupt_check([] { return impatient; });
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    const Communicator d = c.duplicate(), e = c.duplicate();
    const std::string text = thrown(e, [&] {
      impatient = last(e);
      if (last(e)) (void)d.all_sum(Global(1000));
      (void)e.all_sum(Global(1));
    });
    impatient = false;
    EXPECT_TRUE(has(text, "interrupted")) << text;
    expect_alike(c, text);
    const std::string next = thrown(d, [&] { (void)d.all_sum(Global(1)); });
    EXPECT_TRUE(has(next, "because of a failure on another one")) << next;
    expect_alike(c, next);
    expect_works(d);
    expect_works(e);
  });
  comm::set_interrupt_check({});
}

// The failing rank has begun an operation on another communicator that no other rank will begin.
TEST(Failure, DropsOperationsOfAnotherCommunicatorWithAnError) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    for (const bool sum : {true, false}) {
      const Communicator d = c.duplicate(), e = c.duplicate();
      // Other ranks may still be in this call when the last rank has failed: they complete it.
      comm::Exchange exchange(d, comm::collective(d, [&] { return ring(d); }), 8);
      comm::collective(d, [&] { exchange_once(exchange); });  // ranks agree on the path at its first use
      const std::string text = thrown(e, [&] {
        if (last(e)) {
          comm::PendingSum pending;
          double x = 1000;
          if (sum) pending = d.start_sum(&x, 1);
          const int slot = exchange.open();
          const AtEnd close{[&] { exchange.close(slot); }};
          if (!sum) exchange.post(slot);
          throw Error(ErrorKind::usage, "with something begun");
        }
        (void)e.all_sum(Global(1));
      });
      EXPECT_TRUE(has(text, "with something begun")) << text;
      const std::string next = thrown(d, [&] { (void)d.all_sum(Global(1)); });
      EXPECT_TRUE(has(next, "because of a failure on another one")) << next;
      expect_alike(c, next);
      expect_works(d);
      exchange_once(exchange);
    }
  });
}

// Two failures at once on two communicators: no rank waits forever, whichever failure is noticed first.
TEST(Failure, OnTwoCommunicatorsAtOnceEnds) {
  on_ranks(
      [](const Communicator& c) {
        if (c.size() == 1) return;
        for (int round = 0; round < 30; ++round) {
          const Communicator outer = c.duplicate(), inner = c.duplicate();
          const std::string text = thrown(outer, [&] {
            if (c.rank() == 0) {
              std::this_thread::sleep_for(round % 10 * 50us);
              throw Error(ErrorKind::usage, "in the outer call");
            }
            comm::collective(inner, [&] {
              if (last(c)) throw Error(ErrorKind::usage, "in the inner call");
              (void)inner.all_sum(Global(1));
            });
          });
          EXPECT_TRUE(has(text, "in the outer call")) << text;
          expect_alike(c, text);
          expect_works(outer);
          // `inner` was abandoned in the middle of a call or of its agreement.
          expect_alike(c, thrown(inner, [&] { (void)inner.all_sum(Global(1)); }));
          expect_alike(c, thrown(inner, [&] { (void)inner.all_sum(Global(1)); }));
        }
      },
      {2, 3, 4});
}

TEST(Failure, OfAGroupIsAnErrorOfItsRanksToTheOthers) {
  on_ranks([](const Communicator& c) {
    if (c.size() < 3) return;
    const auto transport = c.transport().duplicate();
    const Communicator d = c.duplicate();
    std::string inside = nothing;
    const std::string text = thrown(d, [&] {
      if (d.rank() < 2) {
        const Communicator group(std::make_shared<test::Group>(transport, 2));
        try {
          comm::collective(group, [&] {
            if (group.rank() == 1) throw Error(ErrorKind::usage, "in the group");
            (void)group.all_sum(Global(1));
          });
        } catch (const Error& e) {
          inside = e.what();
          throw;
        }
      }
      (void)d.all_sum(Global(1));
    });
    EXPECT_TRUE(has(text, "in the group")) << text;
    if (d.rank() < 2) {
      EXPECT_TRUE(has(inside, "in the group")) << inside;
    }
    expect_alike(c, text);
    expect_works(d);
  });
}

TEST(Failure, ThrownAgainLaterIsTheRanksOwn) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    const Communicator d = c.duplicate();
    std::exception_ptr saved;
    try {
      comm::collective(d, [] { throw Error(ErrorKind::usage, "first"); });
    } catch (...) {
      saved = std::current_exception();
    }
    for (const bool after_another : {false, true}) {
      const std::string text = thrown(d, [&] {
        if (after_another) (void)d.all_gather(d.rank());
        if (last(d)) std::rethrow_exception(saved);
        (void)d.all_sum(Global(1));
      });
      EXPECT_TRUE(has(text, "first")) << text;
      expect_alike(c, text);
    }
    expect_works(d);
  });
}

TEST(Failure, AgreedOnAnotherCommunicatorGivesUpWhatIsPendingHere) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    const Communicator d = c.duplicate(), other = c.duplicate();
    comm::Exchange exchange(d, ring(d), 8);
    for (int round = 0; round < 3; ++round) {
      const std::string text = thrown(d, [&] {
        const int slot = exchange.open();
        const AtEnd close{[&] { exchange.close(slot); }};
        exchange.post(slot);
        comm::collective(other, [&] {
          if (last(other)) throw Error(ErrorKind::usage, "in the duplicate");
          (void)other.all_sum(Global(1));
        });
      });
      EXPECT_TRUE(has(text, "in the duplicate")) << text;
      expect_alike(c, text);
    }
    exchange_once(exchange);
    expect_works(d);
    expect_works(other);
  });
}

TEST(Failure, ReachesRanksThatDuplicate) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    const Communicator d = c.duplicate();
    const std::string text = thrown(d, [&] {
      if (last(d)) throw Error(ErrorKind::usage, "before it duplicates");
      const Communicator copy = d.duplicate();
      (void)copy.all_sum(Global(1));
    });
    EXPECT_TRUE(has(text, "before it duplicates")) << text;
    expect_alike(c, text);
    expect_works(d.duplicate());
    expect_works(d);
  });
}

// The transport fails on one rank while no operation that may throw is waiting.
TEST(Failure, OfTheTransportIsNotLostInDestructors) {
  on_ranks(
      [](const Communicator& c) {
        if (c.size() == 1) return;
        int failures = 0;
        for (int countdown = 1; countdown < 16; ++countdown) {
          const auto transport =
              std::make_shared<test::FaultyTransport>(c.transport().duplicate(), c.rank() == 0 ? countdown : 0);
          const Communicator d(transport);
          const std::string text = thrown(d, [&] {
            for (int i = 0; i < 3; ++i) {
              const double one = 1;
              auto dropped = d.start_sum(&one, 1);
              for (int k = 0; k < 200; ++k) {
                d.poll();
                std::this_thread::yield();
              }
            }
            double x = 1;
            d.start_sum(&x, 1).wait(&x);
            EXPECT_EQ(x, d.size());
            transport->disarm();
          });
          expect_alike(c, text);
          if (text == nothing) continue;
          ++failures;
          EXPECT_TRUE(has(text, "injected fault")) << text;
          expect_works(d);
        }
        EXPECT_GT(failures, 2);
      },
      {2, 3, 4});
}

// A rank that fails before it makes an exchange, which the others have made and opened.
TEST(Failure, BeforeAnExchangeIsMade) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    const Communicator d = c.duplicate();
    const auto pattern = ring(d);
    std::unique_ptr<comm::Exchange> late;
    const auto use = [&] {
      if (!late) late = std::make_unique<comm::Exchange>(d, pattern, 8);
      exchange_once(*late);
    };
    const std::string text = thrown(d, [&] {
      if (last(d)) throw Error(ErrorKind::usage, "before its exchange");
      use();
    });
    EXPECT_TRUE(has(text, "before its exchange")) << text;
    EXPECT_EQ(thrown(d, use), nothing);
    comm::Exchange another(d, pattern, 8);
    EXPECT_EQ(thrown(d, [&] { exchange_once(another), exchange_once(*late); }), nothing);
  });
}

TEST(Failure, RenewsTheTransportWhenTagsRunOut) {
  on_ranks([](const Communicator& c) {
    const Communicator d(std::make_shared<FewTags>(c.transport().duplicate()));
    comm::Exchange exchange(d, c.size() > 1 ? ring(d) : std::make_shared<const comm::Pattern>(), 8);
    for (int k = 0; k < 20; ++k) {
      const std::string text = thrown(d, [&] {
        if (last(d)) throw Error(ErrorKind::usage, "once more");
        double x = 1e300;  // would show up in a later sum
        d.start_sum(&x, 1).wait(&x);
      });
      EXPECT_TRUE(has(text, "once more")) << text;
      EXPECT_EQ(d.all_sum(1.0), d.size());
      if (c.size() > 1) exchange_once(exchange);
    }
  });
}

TEST(Failure, LeavesNoDisorderInNativeSums) {
  on_ranks([](const Communicator& c) {
    const Communicator d = c.duplicate();
    d.use(comm::SumAlgorithm::native);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (int who = 0; who < d.size(); ++who) {
      EXPECT_TRUE(std::isnan(d.all_max(d.rank() == who ? nan : 1.0)));
      double x = d.rank() == who ? nan : 1.0;
      d.start_sum(&x, 1, comm::Operation::min).wait(&x);
      EXPECT_TRUE(std::isnan(x));
    }
    (void)thrown(d, [&] {
      if (last(d)) throw Error(ErrorKind::usage, "before it starts its sum");
      double x = 1000;
      d.start_sum(&x, 1).wait(&x);
    });
    d.use(comm::SumAlgorithm::native);
    for (int k = 0; k < 3; ++k) {
      double x = 1;
      d.start_sum(&x, 1).wait(&x);
      EXPECT_EQ(x, d.size());
    }
  });
}

TEST(Failure, InterruptByTheUserEndsWaits) {
  static thread_local bool impatient = false;
  comm::set_interrupt_check([] { return impatient; });
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    const Communicator d = c.duplicate();
    std::string text;
    auto kind = ErrorKind::environment;
    try {
      comm::collective(d, [&] {
        // The last rank has no interrupt of its own; it only notices that others have failed.
        const auto until = std::chrono::steady_clock::now() + 60s;
        while (last(d) && std::chrono::steady_clock::now() < until) {
          d.check();
          std::this_thread::sleep_for(1ms);
        }
        impatient = true;
        if (!last(d)) (void)d.all_sum(Global(1));
      });
    } catch (const Error& e) {
      kind = e.kind();
      text = e.what();
    }
    impatient = false;
    EXPECT_EQ(kind, ErrorKind::interrupted) << text;
    expect_alike(c, text);
    expect_works(d);
  });
  comm::set_interrupt_check({});
}

TEST(Exchange, WorksInDestructorsWhileAnExceptionUnwinds) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    comm::Exchange exchange(c, ring(c), 8);
    try {
      const AtEnd work{[&] {
        try {
          for (int i = 0; i < 3; ++i) exchange_once(exchange);
          double x = 1;
          { const auto dropped = c.start_sum(&x, 1); }
        } catch (const std::exception& e) {
          ADD_FAILURE() << e.what();
        }
      }};
      throw 1;
    } catch (int) {
    }
    exchange_once(exchange);
  });
}

TEST(Exchange, AbandonedOnesFreeTheirSlots) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    comm::Exchange exchange(c, ring(c), 8);
    for (int round = 0; round < 5; ++round) {
      try {
        const int slot = exchange.open();
        const AtEnd close{[&] { exchange.close(slot); }};
        exchange.post(slot);
        throw std::runtime_error("caught on all ranks alike");
      } catch (const Error& e) {
        ADD_FAILURE() << e.what();
      } catch (const std::runtime_error&) {
      }
    }
    for (int round = 0; round < 5; ++round) {
      const int slot = exchange.open();
      exchange.post(slot);
      exchange.abandon(slot);
    }
    exchange_once(exchange);
  });
}

// Ranks get far ahead of each other: a late sum must not be mixed up with a later one that has the same tag.
TEST(Sum, MoreThanThereAreTagsDoNotMix) {
  on_ranks(
      [](const Communicator& c) {
        if (c.size() < 4) return;
        const Communicator d = c.duplicate();
        constexpr int tags = 512;
        std::vector<comm::PendingSum> pending;
        const auto start = [&](double x) { pending.push_back(d.start_sum(&x, 1)); };
        double v;
        start(1);
        if (d.rank() == 3) {
          pending[0].wait(&v);
          std::this_thread::sleep_for(50ms);
        }
        for (int i = 1; i <= tags; ++i) start(i);
        if (d.rank() != 3) pending[0].wait(&v);
        start(1000);
        if (d.rank() == 2) std::this_thread::sleep_for(200ms);
        for (int i = 1; i <= tags; ++i) {
          pending[std::size_t(i)].wait(&v);
          EXPECT_EQ(v, i * d.size());
        }
        pending.back().wait(&v);
        EXPECT_EQ(v, 1000 * d.size());
      },
      {4, 5});
}

TEST(Reduce, HasTheSameBitsOfZerosAndNaNs) {
  on_ranks([](const Communicator& c) {
    const auto bits = [](double x) {
      Global b;
      std::memcpy(&b, &x, sizeof b);
      return b;
    };
    const double zero = c.rank() % 2 ? -0.0 : 0.0, nan = std::nan(std::to_string(1 + c.rank()).c_str());
    for (const double mine : {zero, -zero, nan, c.rank() == 0 ? 1.0 : nan})
      for (const auto operation : {comm::Operation::min, comm::Operation::max, comm::Operation::sum}) {
        double x = mine;
        c.start_sum(&x, 1, operation).wait(&x);
        EXPECT_EQ(c.all_min(bits(x)), c.all_max(bits(x))) << mine << ' ' << int(operation);
      }
  });
}

template <class T>
constexpr bool can_be_summed = requires(const Communicator c, const T* p) {
  c.start_sum(p, 1);
};
static_assert(can_be_summed<double> && can_be_summed<std::complex<float>> && can_be_summed<Global>);
static_assert(!can_be_summed<int> && !can_be_summed<char> && !can_be_summed<bool>);

// Only the rank's own thread calls the transport, whichever threads take part in a loop.
TEST(Poll, DoesNothingOnOtherThreads) {
  class Watched final : public test::FaultyTransport {
   public:
    explicit Watched(std::shared_ptr<comm::Transport> inner) : FaultyTransport(std::move(inner), 0) {}
    bool test(comm::Ticket& ticket) override {
      if (std::this_thread::get_id() != mine) ++foreign;
      return FaultyTransport::test(ticket);
    }
    const std::thread::id mine = std::this_thread::get_id();
    std::atomic<int> foreign = 0;
  };
  on_ranks([](const Communicator& c) {
    const auto transport = std::make_shared<Watched>(c.transport().duplicate());
    const Communicator d(transport);
    for (int round = 0; round < 5; ++round) {
      double x = 1;
      auto sum = d.start_sum(&x, 1);
      std::jthread helper([&] {
        for (int i = 0; i < 1000; ++i) d.poll();
      });
      for (int i = 0; i < 1000; ++i) d.poll();
      sum.wait(&x);
      EXPECT_EQ(x, d.size());
    }
    EXPECT_EQ(transport->foreign, 0);
  });
}

#if defined(__linux__) && !defined(TACIT_THREAD_SANITIZER) && !defined(TACIT_ADDRESS_SANITIZER)
// In a process with memory for some of the threads' stacks, but not for all.
void run_with_little_memory() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = rlim_t(pages) * rlim_t(sysconf(_SC_PAGESIZE)) + (rlim_t(96) << 20);
  setrlimit(RLIMIT_AS, &limit);
  std::atomic<bool> ran = false;
  try {
    comm::run_threads(64, [&](const Communicator& c) {
      ran = true;
      (void)c.all_sum(Global(1));
    });
  } catch (const Error& e) {
    std::_Exit(!ran && e.kind() == ErrorKind::environment ? 7 : 1);
  }
  std::_Exit(0);
}

TEST(Threads, RunOnlyWhenAllAreThere) {
  if (test::under_mpi()) GTEST_SKIP() << "forks";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_with_little_memory(), testing::ExitedWithCode(7), "");
}
#endif

TEST(Failure, ARankThatHasEndedIsAnErrorOfLaterCallsOnly) {
  if (test::under_mpi()) GTEST_SKIP() << "one of the ranks ends";
  for (const int ranks : {2, 3, 5}) {
    comm::run_threads(ranks, [&](const Communicator& c) {
      expect_works(c);
      if (c.rank() == ranks - 1) std::this_thread::sleep_for(20ms);  // it is in this call when rank 1 has ended
      expect_works(c);
      if (c.rank() == 1) return;
      for (int repeated = 0; repeated < 3; ++repeated) {
        const std::string text = thrown(c, [&] { (void)c.all_sum(Global(1)); });
        EXPECT_TRUE(has(text, "rank 1 has ended")) << text;
      }
    });
  }
}

TEST(Failure, LeastOfNumbersTravelsInTheAgreement) {
  on_ranks([](const Communicator& c) {
    const Global r = c.rank(), last = c.size() - 1;
    using Four = std::array<Global, 4>;
    EXPECT_EQ(comm::collective_least(c, [&] { return Four{r, -r, 7, ~r}; }), (Four{0, -last, 7, ~last}));
    if (c.size() > 1) {
      const std::string text = thrown(c, [&] {
        (void)comm::collective_least(c, [&] {
          require(r != last, "the last rank refuses");
          return Four{};
        });
      });
      EXPECT_TRUE(has(text, "the last rank refuses")) << text;
    }
    expect_works(c);
  });
}

TEST(Pattern, RefusesIndicesThatDoNotAscend) {
  on_ranks([](const Communicator& c) {
    if (c.size() == 1) return;
    const auto partition = layout::Partition::blocks(10 * c.size(), c.size());
    const Global first = partition.begin((c.rank() + 1) % c.size());
    for (const auto& needed : {std::vector<Global>{first + 1, first}, std::vector<Global>{first, first}}) {
      const std::string text = thrown(c, [&] { comm::Pattern::build(c, partition.offsets(), needed); });
      EXPECT_TRUE(has(text, "ascend")) << text;
    }
    expect_works(c);
  });
}

}  // namespace
