#include "exec/branches.hpp"
#include <tacit/exec/caught.hpp>

#include "crew.hpp"

#include <utility>

namespace tacit::exec::detail {
namespace {

// A branch, on the stack of the thread that waits for it.
struct Branch {
  void (*f)(void*);
  void* of;
  Caught& caught;
  bool begun = false, done = false;
  Branch *older = nullptr, *newer = nullptr;
};

// The branches not begun yet, in the order of creation: the oldest are the largest.
class Tree {
 public:
  void run(void (*f)(void*), void* of) {
    crew_.run([&] { within(f, of); }, [&](Crew::Lock& lock) { return take(lock, oldest_); });
  }
  void both(Branch& mine, void (*h)(void*), void* of_h) {
    Crew::Lock lock(crew_.mutex);
    mine.older = newest_;
    (newest_ ? newest_->newer : oldest_) = &mine;
    newest_ = &mine;
    crew_.work.announce(true);  // also to threads that wait for a branch
    lock.unlock();
    mine.caught([&] { h(of_h); });
    lock.lock();
    if (!mine.begun) take(lock, &mine);
    while (!mine.done)
      if (!take(lock, newest_)) crew_.work.wait(lock);
  }
  static Tree* current() { return current_; }

 private:
  bool take(Crew::Lock& lock, Branch* branch) {
    if (!branch) return false;
    (branch->older ? branch->older->newer : oldest_) = branch->newer;
    (branch->newer ? branch->newer->older : newest_) = branch->older;
    branch->begun = true;
    lock.unlock();
    branch->caught([&] { within(branch->f, branch->of); });
    lock.lock();
    branch->done = true;
    crew_.work.announce(true);
    return true;
  }
  void within(void (*f)(void*), void* of) {
    struct Restore {
      Tree* before;
      ~Restore() { current_ = before; }
    } const restore{std::exchange(current_, this)};
    f(of);
  }
  static inline thread_local Tree* current_ = nullptr;
  Crew crew_;
  Branch *oldest_ = nullptr, *newest_ = nullptr;
};

}  // namespace

void run_branching(void (*f)(void*), void* of) {
  if (threads() == 1) return f(of);
  Tree tree;
  tree.run(f, of);
}

void run_both(void (*g)(void*), void* of_g, void (*h)(void*), void* of_h) {
  Tree* const tree = Tree::current();
  if (!tree) return g(of_g), h(of_h);
  Caught caught;
  Branch branch{g, of_g, caught};
  tree->both(branch, h, of_h);
  caught.rethrow();
}

}  // namespace tacit::exec::detail
