#include "actors/embedding_actor.hpp"

namespace millrace::actors {

void EmbeddingActor::exchange_tied() { send_accumulator(0, rank().plan().tied_channel(true)); }

}  // namespace millrace::actors
