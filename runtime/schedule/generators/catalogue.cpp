#include "runtime/schedule/generators/catalogue.hpp"

namespace millrace::runtime {

const std::vector<ScheduleFacts>& schedule_catalogue() {
  static const std::vector<ScheduleFacts> facts{
      {"gpipe", "(P-1)(F+B)", "M", "2(P-1)", "any P and M", "the simplest: for reference and evaluation. Memory grows with M"},
      {"1f1b", "(P-1)(F+B)", "P", "2(P-1)", "any P and M; --warmup up to 2(P-1) hides link latency for up to 2P-1 microbatches",
       "the default: least memory with a whole backward and one chunk per rank"},
      {"looped-bfs", "(P-1)(F+B)/V", "M", "2(PV-1)", "any P, V, M",
       "several chunks and memory for all microbatches; every chunk's weights are used once forward, once backward"},
      {"interleaved", "(P-1)(F+B)/V", "(2(P-1)+(V-1)N+1)/V", "2(PV-1)", "P <= N <= M; M mod N = 0 or >= P",
       "a small bubble with a whole backward, for V times the messages; hides link latency"},
      {"circular", "(P-1)(F+B)/V", "M", "2(PV-1)", "M a multiple of P", "looped-bfs, as in MaxText's rolled loop"},
      {"zb-h1", "(P-1)(F+I-W)", "P", "2(P-1)", "any P and M", "1f1b's memory and messages, about a third of its bubble: split backward"},
      {"zb-h2", "(P-1)F and the span's (P-1)(F+I-2W)", "2P-1", "2(P-1)", "any P and M; M >= 2P-1 fills it",
       "no idle time inside a rank, for twice the memory; pays off if ranks need not end a step together"},
      {"zb-v", "about (P-1)(F+I-W)/2, of the span 0", "P", "4(P-1)", "V = 2; M >= 2P-1 fills it",
       "the smallest bubble at 1f1b's memory; embedding and head share rank 0"},
      {"interleaved-zb", "(P-1)(F+I-W)/V", "(P+(V-1)N)/V", "2(PV-1)", "max(1, M div P) divides M, or a legal N is given",
       "interleaved with split backward, any V"},
      {"v-half", "about (P-1)(F+B)/2", "P/2+1", "4(P-1)", "V = 2", "half of 1f1b's memory and half of its bubble"},
      {"v-min", "about 2/3 (P-1)(F+B), more where F, I, W differ", "P/3+1", "4(P-1)", "V = 2", "the least memory: a third of 1f1b's"},
      {"dualpipe", "(P/2-1)(F&B+B-3W)", "P+1", "2(P-1), and gradients between the two copies",
       "P even, M even, M >= 2P; two copies of the model",
       "for a forward and a backward that overlap well, as with experts on other ranks; twice the weights"},
      {"dualpipe-v", "(P-1)(F&B+B-3W)/2", "P+1/2", "4(P-1)", "V = 2; M >= 2P", "DualPipe with one copy of the weights"},
      {"auto", "what the search finds", "within the limit, by default P", "2(P-1)", "any P and M",
       "unequal ranks, known costs, or a memory limit between zb-h1's and zb-h2's"},
  };
  return facts;
}

}  // namespace millrace::runtime
