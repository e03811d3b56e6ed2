// Index maps: most read the operand at strides of the result's index.
#include <algorithm>

#include "ir/interp_ops.h"

namespace tilewright {
namespace {

// visit(position, offset) for every index of `shape` in row-major order.
template <typename Visit>
void for_each_offset(const Sizes& shape, const Sizes& strides, int64_t offset, const Visit& visit) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  Sizes index(shape.size(), 0);
  for (int64_t position = 0; position < count; ++position) {
    visit(static_cast<size_t>(position), static_cast<size_t>(offset));
    for (size_t d = shape.size(); d-- > 0;) {
      offset += strides[d];
      if (++index[d] < shape[d]) break;
      offset -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

void copy_element(HostTensor& to, size_t i, const HostTensor& from, size_t j) {
  if (to.is_float())
    to.floats[i] = from.floats[j];
  else
    to.ints[i] = from.ints[j];
}

HostTensor gather(const HostTensor& from, const Sizes& shape, const Sizes& strides, int64_t offset) {
  HostTensor out(from.dtype, shape);
  for_each_offset(shape, strides, offset, [&](size_t i, size_t at) { copy_element(out, i, from, at); });
  return out;
}

// Writes `from` into `to` at `offset`, by the strides of `to`.
void scatter(HostTensor& to, const HostTensor& from, const Sizes& strides, int64_t offset) {
  for_each_offset(from.shape, strides, offset, [&](size_t i, size_t at) { copy_element(to, at, from, i); });
}

HostTensor reshaped(const HostTensor& from, const Sizes& shape) {
  HostTensor out = from;
  out.shape = shape;
  if (out.numel() != from.numel()) {
    throw UserError("reshape of " + std::to_string(from.numel()) + " elements to " + std::to_string(out.numel()));
  }
  return out;
}

HostTensor expanded(const HostTensor& from, const Sizes& shape) {
  const Sizes dense = dense_strides(from.shape);
  Sizes strides(shape.size(), 0);
  const size_t added = shape.size() - from.shape.size();
  for (size_t d = 0; d < from.shape.size(); ++d) {
    if (from.shape[d] == shape[added + d]) strides[added + d] = dense[d];
  }
  return gather(from, shape, strides, 0);
}

HostTensor strided(const Node& node, const HostTensor& from, const ViewSizes& sizes) {
  Sizes strides = dense_strides(from.shape);
  int64_t offset = 0;
  if (node.op == Op::kPermute) {
    const Sizes dense = strides, dims = node.attr_ints("dims");
    for (size_t i = 0; i < dims.size(); ++i) strides[i] = dense[static_cast<size_t>(dims[i])];
  } else if (node.op == Op::kFlip) {
    for (const int64_t dim : node.attr_ints("dims")) {
      const auto d = static_cast<size_t>(dim);
      offset += strides[d] * (from.shape[d] - 1);
      strides[d] = -strides[d];
    }
  } else {
    const auto d = static_cast<size_t>(node.attr_int("dim"));
    if (node.op == Op::kSlice) {
      offset = strides[d] * sizes.start;
      strides[d] *= sizes.step;
    } else {
      if (sizes.index < 0 || sizes.index >= from.shape[d]) {
        throw UserError("select of index " + std::to_string(sizes.index) + " of size " + std::to_string(from.shape[d]));
      }
      offset = strides[d] * sizes.index;
      strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(d));
    }
  }
  return gather(from, sizes.shape, strides, offset);
}

HostTensor concat(const Node& node, const std::vector<const HostTensor*>& operands, const Sizes& shape) {
  HostTensor out(operands[0]->dtype, shape);
  const Sizes strides = dense_strides(shape);
  const auto d = static_cast<size_t>(node.attr_int("dim"));
  int64_t start = 0;
  for (const HostTensor* operand : operands) {
    scatter(out, *operand, strides, start * strides[d]);
    start += operand->shape[d];
  }
  return out;
}

HostTensor padded(const HostTensor& from, const HostTensor& fill, const ViewSizes& sizes) {
  HostTensor out = expanded(fill, sizes.shape);
  const Sizes strides = dense_strides(sizes.shape);
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) offset += strides[d] * sizes.low[d];
  scatter(out, from, strides, offset);
  return out;
}

HostTensor iota(const Node& node, const Sizes& shape) {
  HostTensor out(node.attr_dtype("dtype"), shape);
  const auto d = static_cast<size_t>(node.attr_int("dim"));
  const int64_t inner = dense_strides(shape)[d];
  for (int64_t i = 0; i < out.numel(); ++i) {
    const int64_t index = i / inner % shape[d];
    if (out.is_float())
      out.floats[static_cast<size_t>(i)] = round_to(out.dtype, static_cast<double>(index));
    else
      out.ints[static_cast<size_t>(i)] = wrapped(out.dtype, index);
  }
  return out;
}

}  // namespace

HostTensor interp_view(const Node& node, const std::vector<const HostTensor*>& operands, const ViewSizes& sizes) {
  switch (node.op) {
    case Op::kReshape:
    case Op::kSqueeze:
    case Op::kUnsqueeze:
      return reshaped(*operands[0], sizes.shape);
    case Op::kExpand:
    case Op::kFull:
      return expanded(*operands[0], sizes.shape);
    case Op::kConcat:
      return concat(node, operands, sizes.shape);
    case Op::kPad:
      return padded(*operands[0], *operands[1], sizes);
    case Op::kIota:
      return iota(node, sizes.shape);
    default:
      return strided(node, *operands[0], sizes);
  }
}

}  // namespace tilewright
