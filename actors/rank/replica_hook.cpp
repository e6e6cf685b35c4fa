#include "actors/rank/replica_hook.hpp"

#include "kernels/base/check.hpp"
#include "kernels/base/without_component.hpp"

namespace millrace::actors {

void ReplicaHook::before(const Call& call) {
  if (next_ != nullptr) next_->before(call);
}

void ReplicaHook::after(const Call& call) {
  if (next_ != nullptr) next_->after(call);
  try {
    advance(call);
  } catch (const Error& error) {  // which would seem to be of the operation
    throw Error(error.code(), fmt::format("a transfer between replicas: {}", without_component(error.what())));
  }
}

void ReplicaHook::advance(const Call& call) {
  if (completes_ >= 0) replicas_.operation_done(static_cast<std::size_t>(completes_), call.kind, call.index);
  replicas_.advance(context_);
}

}  // namespace millrace::actors
