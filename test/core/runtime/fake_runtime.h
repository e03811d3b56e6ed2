#pragma once

#include <bit>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "runtime/executor.h"

namespace tilewright {

// A tensor over plain memory that several slots may share.
struct FakeTensor {
  std::shared_ptr<std::vector<float>> storage;
  int64_t offset = 0;
  std::vector<int64_t> sizes, strides;
  DType dtype = DType::kF32;

  float* data() const { return storage->data() + offset; }
  float& at(int64_t i) const { return data()[i * (strides.empty() ? 1 : strides.back())]; }
};

inline FakeTensor make_tensor(std::vector<float> values, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  return {std::make_shared<std::vector<float>>(std::move(values)), 0, std::move(sizes), std::move(strides),
          DType::kF32};
}

inline FakeTensor make_vector(std::vector<float> values) {
  const auto size = static_cast<int64_t>(values.size());
  return make_tensor(std::move(values), {size}, {1});
}

class FakeCaller : public Caller {
 public:
  using Value = std::variant<std::monostate, FakeTensor, int64_t, double>;
  // What a call does, by the operator's name.
  using Calls = std::map<std::string, std::function<void(FakeCaller&, const Call&, std::span<const int64_t>)>>;

  explicit FakeCaller(const Plan& plan, std::vector<Value> inputs, Calls calls = {})
      : slots(std::move(inputs)), calls_(std::move(calls)) {
    slots.resize(plan.slots());
  }

  FakeTensor& fake(Slot slot) { return std::get<FakeTensor>(slots.at(slot)); }

  TensorView tensor(Slot slot) override {
    FakeTensor& t = fake(slot);
    return {t.data(), t.dtype, t.sizes, t.strides};
  }
  int64_t integer(Slot slot) override { return std::get<int64_t>(slots.at(slot)); }
  double number(Slot slot) override { return std::get<double>(slots.at(slot)); }
  void alias(Slot slot, Slot of) override { slots.at(slot) = slots.at(of); }
  void drop(Slot slot) override {
    slots.at(slot) = {};
    log.push_back("drop " + std::to_string(slot));
  }
  void allocate(Slot slot, const Type& type, std::span<const int64_t> sizes,
                std::span<const int64_t> strides) override {
    int64_t elements = 1;
    for (size_t d = 0; d < sizes.size(); ++d) elements += (sizes[d] > 0 ? sizes[d] - 1 : 0) * strides[d];
    slots.at(slot) = FakeTensor{std::make_shared<std::vector<float>>(elements, -1.0f),
                                0,
                                {sizes.begin(), sizes.end()},
                                {strides.begin(), strides.end()},
                                type.dtype};
  }
  void* workspace(int64_t bytes) override {
    workspaces.emplace_back(bytes);
    return workspaces.back().data();
  }
  void release_workspaces() override { workspaces.clear(); }
  void view(Slot result, Slot base, std::span<const int64_t> sizes, std::span<const int64_t> strides,
            int64_t offset) override {
    const FakeTensor& t = fake(base);
    slots.at(result) = FakeTensor{
        t.storage, t.offset + offset, {sizes.begin(), sizes.end()}, {strides.begin(), strides.end()}, t.dtype};
  }
  void copy(Slot from, Slot into) override {
    for (int64_t i = 0; i < fake(from).sizes.back(); ++i) fake(into).at(i) = fake(from).at(i);
  }
  void restride(Slot slot, std::span<const int64_t> strides) override {
    const FakeTensor old = fake(slot);
    log.push_back("restride " + std::to_string(slot));
    allocate(slot, Type::tensor(old.dtype, {}), old.sizes, strides);
    for (int64_t i = 0; i < old.sizes.back(); ++i) fake(slot).at(i) = old.at(i);
  }
  void call(size_t, const Call& call, std::span<const int64_t> symbols) override {
    log.push_back("call " + call.op);
    calls_.at(call.op)(*this, call, symbols);
  }
  void host(size_t, const Host& host, std::span<const int64_t>) override {
    log.push_back("host " + std::to_string(host.number));
  }
  void* stream() override { return this; }
  int ordinal() const override { return gpu; }
  bool profiling() const override { return true; }
  void enter(const char* name) override { log.push_back(std::string("enter ") + name); }
  void leave() override { log.push_back("leave"); }

  std::vector<Value> slots;
  std::vector<std::vector<std::byte>> workspaces;
  std::vector<std::string> log;
  int gpu = 0;

 private:
  Calls calls_;
};

// Kernels are functions over their parameter words, by the artifact's entry.
class FakeDevice : public Device {
 public:
  using Kernel = std::function<void(const LaunchRequest&)>;
  struct Loaded : LoadedKernel {
    Kernel run;
  };

  std::string name() const override { return "fake"; }
  std::string arch() const override { return "sm_80"; }
  std::shared_ptr<LoadedKernel> load(const Artifact& artifact, int ordinal) override {
    log.push_back("load " + artifact.key + " on " + std::to_string(ordinal));
    auto loaded = std::make_shared<Loaded>();
    loaded->run = kernels.at(artifact.entry);
    return loaded;
  }
  void launch(const LoadedKernel& kernel, const LaunchRequest& request) override {
    log.push_back(std::string("launch ") + request.name);
    grid = request.grid;
    words.assign(request.args.begin(), request.args.end());
    memory.assign(request.memory.begin(), request.memory.end());
    stream = request.stream;
    dynamic_smem_bytes = request.dynamic_smem_bytes;
    static_cast<const Loaded&>(kernel).run(request);
  }
  bool checks_memory() const override { return true; }
  bool is_capturing(void*) const override { return capturing; }

  std::map<std::string, Kernel> kernels;
  std::vector<std::string> log;
  std::array<uint32_t, 3> grid{};
  std::vector<uint64_t> words;
  std::vector<MemoryRange> memory;
  void* stream = nullptr;
  uint32_t dynamic_smem_bytes = 0;
  bool capturing = false;
};

class FakeKernels : public KernelSource {
 public:
  std::shared_ptr<const Artifact> get(const std::string& key) override { return artifacts.at(key); }
  // An artifact whose entry is its key's first word.
  Artifact& add(const std::string& key, const std::string& entry, Expr grid_x) {
    auto artifact = std::make_shared<Artifact>();
    artifact->key = key;
    artifact->entry = entry;
    artifact->grid[0] = std::move(grid_x);
    artifacts[key] = artifact;
    return *artifact;
  }
  std::map<std::string, std::shared_ptr<Artifact>> artifacts;
};

inline float* pointer(uint64_t word) { return reinterpret_cast<float*>(word); }

}  // namespace tilewright
