#include "kernels/cpu/loops_isa.hpp"

namespace millrace::kernels::cpu::MILLRACE_ISA {

Isa loops_isa() {
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512CD__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
  return Isa::avx512;
#elif defined(__AVX2__) && defined(__FMA__)
  return Isa::avx2;
#else
  return Isa::baseline;
#endif
}

}  // namespace millrace::kernels::cpu::MILLRACE_ISA
