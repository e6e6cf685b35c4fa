#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "cluster/exchange/group_member.hpp"
#include "cluster/links/transport.hpp"

namespace millrace::cluster {

/// Sends and receives the parts of this process's members whose other member is in another process (mpi_parts.cpp).
class RemoteParts : public Poller {
 public:
  /// Before the transport polls it.
  virtual void add(GroupMember& member) = 0;
  /// A member has submitted a posting. Any thread.
  virtual void wake() noexcept = 0;
  /// On the transport thread, which polls it no more: cancels what is outstanding.
  virtual void take_back() = 0;
  /// On the transport thread: throws Error(internal) if a message is here that no member expects.
  virtual void check_nothing_came() = 0;

  static std::unique_ptr<RemoteParts> make(const Topology& topology, Transport& transport, std::span<const ExchangeGroup> groups,
                                           ExchangeUse use, std::size_t piece_bytes);
};

}  // namespace millrace::cluster
