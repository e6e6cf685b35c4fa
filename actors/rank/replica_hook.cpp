#include "actors/rank/replica_hook.hpp"

namespace millrace::actors {

void ReplicaHook::before(const Call& call) {
  if (next_ != nullptr) next_->before(call);
}

void ReplicaHook::after(const Call& call) {
  if (next_ != nullptr) next_->after(call);
  if (completes_ >= 0) replicas_.operation_done(static_cast<std::size_t>(completes_), call.kind, call.index);
  replicas_.advance(context_);
}

}  // namespace millrace::actors
