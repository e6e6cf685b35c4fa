#include "runtime/schedule/generators/dualpipe_phases.hpp"

namespace millrace::runtime {
namespace {

// Phase 4, the steady state: each forward hides the communication of a backward and vice versa.
void write_overlapped_phase(ListWriter& list, const DualPipePosition& at) {
  const bool innermost = at.depth + 1 == at.depths;
  for (int i = 0; i < at.microbatches - 2 * at.depths + at.depth + 1; ++i) {
    if (i == 0 && innermost) {
      // This forward is issued separately, since the neighbour waits for it: in one block its output would be sent only when the
      // backward ends.
      list.forward(at.first);
      list.backward(at.second);
    } else {
      list.overlapped(at.first, at.second);
    }
    list.overlapped(at.second, at.first);
  }
}

// Phase 6: only backwards; the second half leaves the weight gradients for the gaps of later phases.
void write_backward_phase(ListWriter& list, const DualPipePosition& at) {
  const int switch_at = (at.depth + 1) / 2;
  bool split = false;
  const auto backward = [&](StageId stage) { split ? list.input_gradient(stage) : list.backward(stage); };
  for (int i = 0; i < at.depth + 1; ++i) {
    split = split || (i == switch_at && at.depth % 2 == 1);
    backward(at.second);
    split = split || (i == switch_at && at.depth % 2 == 0);
    backward(at.first);
  }
}

}  // namespace

void write_dualpipe_phases(ListWriter& list, const DualPipePosition& at) {
  const int outer = at.depths - at.depth - 1;
  for (int i = 0; i < 2 * outer; ++i) list.forward(at.first);  // phase 1
  for (int i = 0; i < at.depth + 1; ++i) {                     // phase 2
    list.forward(at.first);
    list.forward(at.second);
  }
  for (int i = 0; i < outer; ++i) {  // phase 3
    list.input_gradient(at.second);
    list.weight_gradient();
    list.forward(at.second);
  }
  write_overlapped_phase(list, at);  // phase 4
  for (int i = 0; i < outer; ++i) {  // phase 5
    list.backward(at.second);
    list.overlapped(at.second, at.first);
  }
  write_backward_phase(list, at);    // phase 6
  for (int i = 0; i < outer; ++i) {  // phase 7
    list.weight_gradient();
    list.input_gradient(at.first);
  }
  list.remaining_weight_gradients();  // phase 8
}

}  // namespace millrace::runtime
