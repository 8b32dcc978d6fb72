// The messages of all mails of a rank that have arrived or are arriving.
#pragma once

#include <tacit/comm/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace tacit::comm::detail {

struct Mailbox {
  using Bytes = std::vector<std::byte>;
  using Label = std::pair<std::uint64_t, std::int64_t>;  // the mail, and its label; at the end of every message
  struct Arriving {
    Ticket ticket;
    std::unique_ptr<Bytes> bytes;
  };
  std::uint64_t opened = 0;
  std::list<Arriving> arriving;
  std::map<Label, Bytes> arrived;

  void collect(Transport& transport, int tag);
  void give_up(Transport& transport);
};

}  // namespace tacit::comm::detail
