#include "runtime/launch.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/small_array.h"

namespace tilewright {

bool Device::is_capturing(void*) const { return false; }

void Device::zero(uint64_t address, uint64_t bytes, void*) { std::memset(reinterpret_cast<void*>(address), 0, bytes); }

namespace {

float float_of_half(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const uint32_t sign = static_cast<uint32_t>(bits >> 15) << 31, fraction = bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  const float magnitude = exponent == 0
                              ? static_cast<float>(fraction) * 0x1p-24f
                              : std::bit_cast<float>(static_cast<uint32_t>(exponent + 112) << 23 | fraction << 13);
  return sign ? -magnitude : magnitude;
}

template <typename T>
T load(const void* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

uint64_t bits_of(double value) { return std::bit_cast<uint64_t>(value); }
uint64_t bits_of(int64_t value) { return static_cast<uint64_t>(value); }

// The element of a rank-0 tensor in CPU memory, widened as the kernel takes it.
uint64_t read_host_element(const TensorView& tensor, const std::string& kernel) {
  const void* data = tensor.data;
  switch (tensor.dtype) {
    case DType::kF64:
      return bits_of(load<double>(data));
    case DType::kF32:
      return bits_of(double{load<float>(data)});
    case DType::kF16:
      return bits_of(double{float_of_half(load<uint16_t>(data))});
    case DType::kBF16:
      return bits_of(double{std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(data)) << 16)});
    case DType::kI64:
      return bits_of(load<int64_t>(data));
    case DType::kI32:
      return bits_of(int64_t{load<int32_t>(data)});
    case DType::kI16:
      return bits_of(int64_t{load<int16_t>(data)});
    case DType::kI8:
      return bits_of(int64_t{load<int8_t>(data)});
    case DType::kU8:
    case DType::kBool:
      return bits_of(int64_t{load<uint8_t>(data)});
    default:
      throw InternalError(kernel + ": a number in CPU memory of type " + name(tensor.dtype) +
                          "; kernels take f64 f32 f16 bf16, integers and bool");
  }
}

// The kernel's grid, checked against what a launch can carry.
uint32_t launch_dimension(int64_t value, int axis, const std::string& kernel) {
  const int64_t limit = axis == 0 ? 2147483647 : 65535;
  if (value < 0 || value > limit) {
    throw InternalError(kernel + ": grid dimension " + std::to_string(axis) + " is " + std::to_string(value) +
                        ", at most " + std::to_string(limit) + " can be launched");
  }
  return static_cast<uint32_t>(value);
}

class ProfiledLaunch {
 public:
  ProfiledLaunch(Caller& caller, const std::string& name) : caller_(caller.profiling() ? &caller : nullptr) {
    if (caller_) caller_->enter(name.c_str());
  }
  ~ProfiledLaunch() {
    if (caller_) caller_->leave();
  }

 private:
  Caller* caller_;
};

}  // namespace

int64_t TensorView::span_bytes() const {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return (last + 1) * bytes(dtype);
}

// What one launch reads from its caller: a word for each parameter of the kernel, and the memory behind the pointers.
struct LaunchRunner::Operands {
  explicit Operands(size_t parameters) : words(parameters), ranges(parameters) {}
  SmallArray<uint64_t, 48> words;
  SmallArray<MemoryRange, 48> ranges;
  size_t word_count = 0;
  size_t range_count = 0;
  uint64_t pointer_bits = 0;  // or of all addresses: its low zeros are the common alignment
  int64_t largest_span = 0;

  void add_tensor(const TensorView& tensor, bool writable) {
    const auto address = reinterpret_cast<uint64_t>(tensor.data);
    const int64_t span = tensor.span_bytes();
    pointer_bits |= address;
    largest_span = std::max(largest_span, span);
    ranges[range_count++] = {address, static_cast<uint64_t>(span), writable, static_cast<int>(word_count)};
    words[word_count++] = address;
  }
  void add_word(uint64_t word) { words[word_count++] = word; }
};

LaunchRunner::LaunchRunner(const Launch& launch, const SymbolIndex& plan_symbols, KernelSource* kernels, Device* device,
                           std::vector<bool> may_copy)
    : launch_(launch), kernels_(kernels), device_(device), may_copy_(std::move(may_copy)) {
  TW_CHECK(kernels_ && device_) << launch.name << ": a launch needs a source of kernels and a device";
  for (const auto& [name, value] : launch.symbols) {
    body_.add(name);
    symbols_.emplace_back(value, plan_symbols);
  }
  for (const LaunchOutput& output : launch.outputs) {
    Output prepared{output.slot, output.into, &output.type, {}, {}};
    if (output.into == kNoSlot) {
      prepared.sizes = size_programs(output.type.shape, plan_symbols);
      prepared.strides = size_programs(output.type.strides.value(), plan_symbols);
    }
    writes_inputs_ |= output.into != kNoSlot;
    outputs_.push_back(std::move(prepared));
  }
  for (const Variant& variant : launch.variants) {
    auto state = std::make_unique<VariantState>();
    state->variant = &variant;
    for (const auto& [e, bound] : variant.condition.divisible) state->divisible.push_back({{e, body_}, bound});
    for (const auto& [e, bound] : variant.condition.at_most) state->at_most.push_back({{e, body_}, bound});
    variants_.push_back(std::move(state));
  }
}

LaunchRunner::~LaunchRunner() = default;

void LaunchRunner::run(Caller& caller, std::span<const int64_t> plan_symbols) {
  SmallArray<int64_t, 32> symbols(symbols_.size());
  for (size_t i = 0; i < symbols_.size(); ++i) symbols[i] = symbols_[i](plan_symbols);

  allocate_outputs(caller, plan_symbols);
  if (writes_inputs_) part_overlapping_inputs(caller);
  constexpr size_t kMostWorkspaces = 8;
  Operands operands(launch_.inputs.size() + outputs_.size() + kMostWorkspaces + symbols_.size());
  read_operands(caller, operands);

  VariantState& state = choose(operands, symbols);
  const Loaded& kernel = loaded(state, caller);
  TW_CHECK(kernel.workspaces.size() <= kMostWorkspaces) << launch_.name << ": " << kernel.workspaces.size();
  {
    const ProfiledLaunch profiled(caller, launch_.name);
    launch(kernel, caller, operands, symbols);
  }
  state.launches.fetch_add(1, std::memory_order_relaxed);
  for (const Output& output : outputs_) {
    if (output.into != kNoSlot && output.slot != kNoSlot) caller.alias(output.slot, output.into);
  }
}

void LaunchRunner::allocate_outputs(Caller& caller, std::span<const int64_t> plan_symbols) const {
  for (const Output& output : outputs_) {
    if (output.into != kNoSlot) continue;
    const size_t rank = output.sizes.size();
    SmallArray<int64_t, 16> sizes(rank), strides(rank);
    for (size_t d = 0; d < rank; ++d) {
      sizes[d] = output.sizes[d](plan_symbols);
      strides[d] = output.strides[d](plan_symbols);
    }
    caller.allocate(output.slot, *output.type, sizes, strides);
  }
}

// A kernel that writes to an input's memory reads its other inputs as they were: one that shares memory with the
// written tensor is replaced by a copy first.
void LaunchRunner::part_overlapping_inputs(Caller& caller) const {
  for (const Output& output : outputs_) {
    if (output.into == kNoSlot) continue;
    const TensorView written = caller.tensor(output.into);
    const auto begin = reinterpret_cast<uint64_t>(written.data), end = begin + written.span_bytes();
    for (const LaunchInput& input : launch_.inputs) {
      if (input.kind != LaunchInput::Kind::kPointer || input.slot == output.into || !may_copy_[input.slot]) continue;
      const TensorView read = caller.tensor(input.slot);
      const auto first = reinterpret_cast<uint64_t>(read.data), last = first + read.span_bytes();
      if (first < end && begin < last) {
        const std::vector<int64_t> strides(read.strides.begin(), read.strides.end());
        caller.restride(input.slot, strides);
      }
    }
  }
}

void LaunchRunner::read_operands(Caller& caller, Operands& operands) const {
  const auto is_written = [&](Slot slot) {
    return std::any_of(outputs_.begin(), outputs_.end(), [&](const Output& o) { return o.into == slot; });
  };
  for (const LaunchInput& input : launch_.inputs) {
    switch (input.kind) {
      case LaunchInput::Kind::kPointer:
        operands.add_tensor(caller.tensor(input.slot), writes_inputs_ && is_written(input.slot));
        break;
      case LaunchInput::Kind::kInt:
        operands.add_word(bits_of(caller.integer(input.slot)));
        break;
      case LaunchInput::Kind::kFloat:
        operands.add_word(bits_of(caller.number(input.slot)));
        break;
      case LaunchInput::Kind::kHostTensor:
        operands.add_word(read_host_element(caller.tensor(input.slot), launch_.name));
        break;
    }
  }
  for (const Output& output : outputs_) {
    if (output.into == kNoSlot) operands.add_tensor(caller.tensor(output.slot), /*writable=*/true);
  }
}

LaunchRunner::VariantState& LaunchRunner::choose(const Operands& operands, std::span<const int64_t> symbols) {
  const auto holds = [&](const VariantState& state) {
    const Condition& condition = state.variant->condition;
    if (operands.pointer_bits & static_cast<uint64_t>(condition.pointer_alignment - 1)) return false;
    if (condition.index_32bit && operands.largest_span > INT32_MAX) return false;
    for (const Bound& b : state.divisible) {
      if (b.value(symbols) % b.bound != 0) return false;
    }
    for (const Bound& b : state.at_most) {
      if (b.value(symbols) > b.bound) return false;
    }
    return true;
  };
  for (const auto& state : variants_) {
    if (holds(*state)) return *state;
  }
  throw InternalError(launch_.name + ": the condition of no variant holds");
}

const LaunchRunner::Loaded& LaunchRunner::loaded(VariantState& state, Caller& caller) {
  const int ordinal = caller.ordinal();
  const Loaded* latest = state.latest.load(std::memory_order_acquire);
  if (latest && latest->ordinal == ordinal) return *latest;

  const std::lock_guard lock(mutex_);
  std::unique_ptr<Loaded>& slot = state.by_ordinal[ordinal];
  if (!slot) {
    if (device_->is_capturing(caller.stream())) {
      throw DeviceError("kernel " + launch_.name + ", variant " + state.variant->key +
                        ", is not loaded yet, and a CUDA graph is being captured: run the compiled function once on "
                        "inputs of these sizes and alignments before the capture");
    }
    auto fresh = std::make_unique<Loaded>();
    fresh->artifact = kernels_->get(state.variant->key);
    TW_CHECK(fresh->artifact) << launch_.name << ": no artifact for " << state.variant->key;
    fresh->kernel = device_->load(*fresh->artifact, ordinal);
    fresh->ordinal = ordinal;
    for (int i = 0; i < 3; ++i) fresh->grid[i] = SizeProgram(fresh->artifact->grid[i], body_);
    fresh->dynamic_smem = SizeProgram(fresh->artifact->dynamic_smem_bytes, body_);
    fresh->workspaces = size_programs(fresh->artifact->workspace_bytes, body_);
    slot = std::move(fresh);
  }
  state.latest.store(slot.get(), std::memory_order_release);
  return *slot;
}

void LaunchRunner::launch(const Loaded& loaded, Caller& caller, Operands& operands,
                          std::span<const int64_t> symbols) const {
  LaunchRequest request;
  request.name = launch_.name.c_str();
  for (int i = 0; i < 3; ++i) {
    request.grid[i] = launch_dimension(loaded.grid[i](symbols), i, launch_.name);
    request.block[i] = static_cast<uint32_t>(loaded.artifact->block[i]);
    if (request.grid[i] == 0) return;  // nothing to compute
  }
  request.dynamic_smem_bytes = static_cast<uint32_t>(loaded.dynamic_smem(symbols));
  for (size_t w = 0; w < loaded.workspaces.size(); ++w) {
    const int64_t size = loaded.workspaces[w](symbols);
    const auto address = reinterpret_cast<uint64_t>(caller.workspace(size));
    if (static_cast<int>(w) < loaded.artifact->zeroed_workspaces) {
      device_->zero(address, static_cast<uint64_t>(size), caller.stream());
    }
    operands.ranges[operands.range_count++] = {address, static_cast<uint64_t>(size), true,
                                               static_cast<int>(operands.word_count)};
    operands.add_word(address);
  }
  for (int64_t value : symbols) operands.add_word(bits_of(value));

  request.args = {operands.words.data(), operands.word_count};
  request.stream = caller.stream();
  request.lines = launch_.lines;
  if (device_->checks_memory()) request.memory = {operands.ranges.data(), operands.range_count};
  device_->launch(*loaded.kernel, request);
  if (!loaded.workspaces.empty()) caller.release_workspaces();
}

std::vector<LaunchRunner::Count> LaunchRunner::counts() const {
  std::vector<Count> result;
  result.reserve(variants_.size());
  for (const auto& state : variants_) {
    result.push_back({state->variant->key, state->launches.load(std::memory_order_relaxed)});
  }
  return result;
}

}  // namespace tilewright
