#include "kernels/head_parts.hpp"

#include "kernels/cuda/launch.cuh"

namespace millrace::kernels::cuda {
namespace {

/// A part of every head, and the indices of its features.
struct Place : HeadPart {
  // The feature d of a head in the whole, and in the part.
  __device__ std::int64_t whole(std::int64_t token, std::int64_t head, std::int64_t d) const {
    return (token * heads + head) * head_width + offset + d;
  }
  __device__ std::int64_t part(std::int64_t token, std::int64_t head, std::int64_t d) const {
    return shared ? token * width + d : (token * heads + head) * width + d;
  }
};

template <class T>
struct JoinPart {
  Place place;
  const T* part;
  T* y;
  __device__ void operator()(std::int64_t index) const {
    const std::int64_t d = index % place.width, head = index / place.width % place.heads, token = index / place.width / place.heads;
    y[place.whole(token, head, d)] = part[place.part(token, head, d)];
  }
};

template <class T>
struct TakePart {
  Place place;
  const T* x;
  T* part;
  __device__ void operator()(std::int64_t index) const {
    const std::int64_t d = index % place.width, head = index / place.width % place.heads, token = index / place.width / place.heads;
    part[index] = x[place.whole(token, head, d)];
  }
};

// One thread for a feature of a token, which all heads share.
template <class T>
struct AddHeads {
  Place place;
  const T* x;
  T* part;
  __device__ void operator()(std::int64_t index) const {
    const std::int64_t d = index % place.width, token = index / place.width;
    float sum = load(x + place.whole(token, 0, d));
    for (std::int64_t head = 1; head < place.heads; ++head) sum += load(x + place.whole(token, head, d));
    store(part + index, sum);
  }
};

void join_heads(const ExecutionContext& context, std::span<const Tensor> parts, HeadPartsOptions options, const Tensor& y) {
  with_type(y.dtype, [&]<class T>(T) {
    for_head_parts(y, options, parts, [&](const Tensor& part, const HeadPart& place) {
      for_each(context, "kernels.join_heads", y.shape[0] * place.heads * place.width, JoinPart<T>{{place}, part.as<T>(), y.as<T>()});
    });
  });
}

void split_heads(const ExecutionContext& context, const Tensor& x, HeadPartsOptions options, std::span<const Tensor> parts) {
  constexpr const char* component = "kernels.split_heads";
  with_type(x.dtype, [&]<class T>(T) {
    for_head_parts(x, options, parts, [&](const Tensor& part, const HeadPart& place) {
      if (place.shared)
        for_each(context, component, part.elements(), AddHeads<T>{{place}, x.as<T>(), part.as<T>()});
      else
        for_each(context, component, part.elements(), TakePart<T>{{place}, x.as<T>(), part.as<T>()});
    });
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::join_heads, join_heads},
    {Backend::cuda, table::split_heads, split_heads},
};

}  // namespace
}  // namespace millrace::kernels::cuda
