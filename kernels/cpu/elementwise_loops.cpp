#include "kernels/cpu/elementwise_loops.hpp"

#include "kernels/cpu/simd/vector.hpp"

namespace millrace::kernels::cpu {
namespace {

template <class T>
MILLRACE_INLINE void add(const T* a, const T* b, T* y, std::int64_t begin, std::int64_t end) {
  std::int64_t i = begin;
  for (; i + 16 <= end; i += 16) store(y + i, load(a + i) + load(b + i));
  if (i < end) store(y + i, load(a + i, end - i) + load(b + i, end - i), end - i);
}

template <class T>
MILLRACE_INLINE void scale(const T* x, float factor, T* y, std::int64_t begin, std::int64_t end) {
  std::int64_t i = begin;
  for (; i + 16 <= end; i += 16) store(y + i, load(x + i) * factor);
  if (i < end) store(y + i, load(x + i, end - i) * factor, end - i);
}

template <class T>
MILLRACE_INLINE void accumulate(const T* x, float* accumulator, std::int64_t begin, std::int64_t end) {
  std::int64_t i = begin;
  for (; i + 16 <= end; i += 16) store(accumulator + i, load(accumulator + i) + load(x + i));
  if (i < end) store(accumulator + i, load(accumulator + i, end - i) + load(x + i, end - i), end - i);
}

template <class From, class To>
MILLRACE_INLINE void convert(const From* x, To* y, std::int64_t begin, std::int64_t end) {
  std::int64_t i = begin;
  for (; i + 16 <= end; i += 16) store(y + i, load(x + i));
  if (i < end) store(y + i, load(x + i, end - i), end - i);
}

template <class Other>
MILLRACE_INLINE void narrow_sum_of(const float* a, const Other* b, BFloat16* y, std::int64_t begin, std::int64_t end) {
  std::int64_t i = begin;
  for (; i + 16 <= end; i += 16) store(y + i, load(a + i) + load(b + i));
  if (i < end) store(y + i, load(a + i, end - i) + load(b + i, end - i), end - i);
}

}  // namespace

namespace MILLRACE_ISA {

void add_f32(const float* a, const float* b, float* y, std::int64_t begin, std::int64_t end) { add(a, b, y, begin, end); }
void add_bf16(const BFloat16* a, const BFloat16* b, BFloat16* y, std::int64_t begin, std::int64_t end) { add(a, b, y, begin, end); }
void scale_f32(const float* x, float factor, float* y, std::int64_t begin, std::int64_t end) { scale(x, factor, y, begin, end); }
void scale_bf16(const BFloat16* x, float factor, BFloat16* y, std::int64_t begin, std::int64_t end) { scale(x, factor, y, begin, end); }
void accumulate_f32(const float* x, float* accumulator, std::int64_t begin, std::int64_t end) { accumulate(x, accumulator, begin, end); }
void accumulate_bf16(const BFloat16* x, float* accumulator, std::int64_t begin, std::int64_t end) {
  accumulate(x, accumulator, begin, end);
}
void widen(const BFloat16* x, float* y, std::int64_t begin, std::int64_t end) { convert(x, y, begin, end); }
void narrow(const float* x, BFloat16* y, std::int64_t begin, std::int64_t end) { convert(x, y, begin, end); }
void narrow_sum(const float* a, const BFloat16* b, BFloat16* y, std::int64_t begin, std::int64_t end) {
  narrow_sum_of(a, b, y, begin, end);
}
void narrow_wide_sum(const float* a, const float* b, BFloat16* y, std::int64_t begin, std::int64_t end) {
  narrow_sum_of(a, b, y, begin, end);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
