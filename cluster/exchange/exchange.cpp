#include "cluster/exchange/exchange.hpp"

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include "cluster/exchange/group_member.hpp"
#include "cluster/exchange/remote_parts.hpp"
#include "cluster/links/transport.hpp"
#include "kernels/base/check.hpp"

namespace millrace::cluster {
namespace {

constexpr const char* exchanges_component = "cluster.exchange";

void check_groups(const Topology& topology, std::span<const ExchangeGroup> groups) {
  std::set<int> ids;
  for (const ExchangeGroup& group : groups) {
    MILLRACE_CHECK(ids.insert(group.id).second, ExitCode::internal, exchanges_component, "group {} ({}): the id is used twice", group.id,
                   group.name);
    MILLRACE_CHECK(!group.ranks.empty(), ExitCode::internal, exchanges_component, "group {} ({}) has no members", group.id, group.name);
    std::set<int> members;
    for (const int rank : group.ranks) {
      MILLRACE_CHECK(rank >= 0 && rank < topology.ranks(), ExitCode::internal, exchanges_component,
                     "group {} ({}): rank {}, expected ranks from 0 to {}", group.id, group.name, rank, topology.ranks() - 1);
      MILLRACE_CHECK(members.insert(rank).second, ExitCode::internal, exchanges_component, "group {} ({}): rank {} is a member twice",
                     group.id, group.name, rank);
    }
  }
}

ExchangeEvents& events_of(std::span<const Exchanges::Member> members, int rank, const ExchangeGroup& group) {
  const auto found = std::find_if(members.begin(), members.end(), [rank](const Exchanges::Member& each) { return each.rank == rank; });
  MILLRACE_CHECK(found != members.end() && found->events != nullptr, ExitCode::internal, exchanges_component,
                 "group {} ({}): rank {} is in this process and has no ExchangeEvents", group.id, group.name, rank);
  return *found->events;
}

}  // namespace

struct Exchanges::State {
  Transport* transport = nullptr;
  std::vector<std::unique_ptr<LocalGroup>> groups;  // those with a member here
  std::unique_ptr<RemoteParts> remote;              // null: no group leaves this process
  std::vector<std::unique_ptr<GroupMember>> members;
  bool attached = false;

  void stop() {
    if (!std::exchange(attached, false)) return;
    transport->detach(*remote);
    transport->run([this] { remote->take_back(); });
  }
};

Exchanges::Exchanges(const Topology& topology, Transport* transport, std::span<const ExchangeGroup> groups, std::span<const Member> members,
                     ExchangeUse use, std::size_t piece_bytes)
    : state_(std::make_unique<State>()) {
  check_groups(topology, groups);
  State& state = *state_;
  state.transport = transport;
  std::vector<GroupMember*> remote_members;
  for (const ExchangeGroup& each : groups) {
    const auto here = std::count_if(each.ranks.begin(), each.ranks.end(), [&](int rank) { return topology.hosts(rank); });
    if (here == 0) continue;
    const bool leaves = here < static_cast<std::ptrdiff_t>(each.ranks.size());
    MILLRACE_CHECK(!leaves || transport != nullptr, ExitCode::internal, exchanges_component,
                   "group {} ({}) leaves this process, and there is no transport", each.id, each.name);
    if (leaves && !state.remote) state.remote = RemoteParts::make(topology, *transport, groups, use, piece_bytes);
    LocalGroup& group = *state.groups.emplace_back(std::make_unique<LocalGroup>(each));
    for (int place = 0; place < group.size(); ++place) {
      const int rank = each.ranks[static_cast<std::size_t>(place)];
      if (!topology.hosts(rank)) continue;
      state.members.push_back(
          std::make_unique<GroupMember>(group, place, events_of(members, rank, each), leaves ? state.remote.get() : nullptr));
      if (leaves) state.remote->add(*state.members.back());
    }
  }
  if (!state.remote) return;
  transport->attach(*state.remote);
  state.attached = true;
}

Exchanges::~Exchanges() { state_->stop(); }

Exchange& Exchanges::exchange(int group, int rank) const {
  for (const auto& member : state_->members) {
    const ExchangeGroup& of = member->group().group;
    if (of.id == group && of.ranks[static_cast<std::size_t>(member->place())] == rank) return *member;
  }
  fail(ExitCode::internal, exchanges_component, "rank {} has no member of group {} in this process", rank, group);
}

void Exchanges::close() {
  State& state = *state_;
  if (state.transport == nullptr) return;
  state.transport->barrier();  // all that is sent has been posted
  std::exception_ptr error;
  try {
    if (state.attached) state.transport->run([&state] { state.remote->check_nothing_came(); });
  } catch (const Error&) {
    error = std::current_exception();  // the other processes wait for this one
  }
  state.stop();
  state.transport->barrier();  // a faster peer must not begin to use the tags again
  if (error) std::rethrow_exception(error);
}

}  // namespace millrace::cluster
