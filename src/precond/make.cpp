#include "make_impl.hpp"

#include <vector>

namespace tacit::precond {

std::span<const Described> kinds() {
  static constexpr Described all[] = {
#define TACIT_PRECOND(enumerator, name, symmetric, takes, text, source) {name, takes, text, source},
#include <tacit/precond/preconds.def>
  };
  return all;
}

std::span<const Option<Options>> options() {
  using O = Options;
  static const std::vector<Option<O>> all = [] {
    std::vector<Option<O>> made{
#define TACIT_PRECOND_OPTION(member, type, range, text, absent) option<O>(#member, &O::member, range, text, absent),
#include <tacit/precond/preconds.def>
    };
    for (auto& o : bottom_options(&O::bottom)) made.push_back(std::move(o));
    return made;
  }();
  return all;
}

bool is_symmetric(std::string_view name, const Options& o) {
#define TACIT_PRECOND(enumerator, own, symmetric, ...) \
  if (name == own) return symmetric;
#include <tacit/precond/preconds.def>
  return false;
}

#define TACIT_INSTANTIATE(T)                                                                               \
  template AmgOptions<T> amg_options<T>(const Options&);                                                   \
  template std::unique_ptr<op::Operator<T, Host>> make<T, Host>(std::string_view, const op::Csr<T, Host>&, \
                                                                const Options&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
