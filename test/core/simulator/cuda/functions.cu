// Calls, tables and arithmetic of many kinds.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cassert>
#include <cstdio>

// A machine with a stack in local memory; the switch becomes a table of branches.
extern "C" __global__ void bytecode(const unsigned char* code, const int* input, int* out) {
  int stack[16];
  int top = 0;
  for (int pc = 0;; ++pc) {
    switch (code[pc]) {
      case 0:
        out[threadIdx.x] = stack[top - 1];
        return;
      case 1:
        stack[top++] = input[threadIdx.x];
        break;
      case 2:
        stack[top++] = code[++pc];
        break;
      case 3:
        --top;
        stack[top - 1] += stack[top];
        break;
      case 4:
        --top;
        stack[top - 1] *= stack[top];
        break;
      case 5:
        stack[top] = stack[top - 1];
        ++top;
        break;
      case 6:
        stack[top - 1] = -stack[top - 1];
        break;
      case 7:
        --top;
        if (stack[top] & 1) pc += code[pc + 1];
        ++pc;
        break;
      default:
        out[threadIdx.x] = -1;
        return;
    }
  }
}

struct Pair {
  double value;
  int count;
  char tag[5];
};
__device__ __noinline__ Pair merge(Pair a, const Pair& b) {
  a.value += b.value;
  a.count += b.count;
  a.tag[a.count % 5] = static_cast<char>('a' + a.count % 26);
  return a;
}
extern "C" __global__ void struct_calls(double* out, int n) {
  Pair p{0, 0, {}};
  for (int i = 0; i < n; ++i) p = merge(p, Pair{0.5 * threadIdx.x, i, {}});
  out[2 * threadIdx.x] = p.value;
  out[2 * threadIdx.x + 1] = p.count * 1000 + p.tag[p.count % 5];
}

__device__ __noinline__ unsigned ackermann(unsigned m, unsigned n) {
  if (m == 0) return n + 1;
  return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}
extern "C" __global__ void recursion(unsigned* out) { out[threadIdx.x] = ackermann(2, threadIdx.x % 4); }

typedef float (*Function)(float);
__device__ __noinline__ float twice(float x) { return 2 * x; }
__device__ __noinline__ float square(float x) { return x * x; }
__device__ __noinline__ float invert(float x) { return 1 / x; }
__device__ Function g_functions[3] = {twice, square, invert};
extern "C" __global__ void function_pointers(float* x, const int* which) {
  x[threadIdx.x] = g_functions[which[threadIdx.x]](x[threadIdx.x]);
}

struct Shape {
  __device__ virtual float area() const = 0;
};
struct Square : Shape {
  float side;
  __device__ explicit Square(float s) : side(s) {}
  __device__ float area() const override { return side * side; }
};
struct Circle : Shape {
  float radius;
  __device__ explicit Circle(float r) : radius(r) {}
  __device__ float area() const override { return 3.0f * radius * radius; }
};
extern "C" __global__ void virtual_calls(float* out) {
  const Square s(threadIdx.x);
  const Circle c(threadIdx.x);
  const Shape* shape = threadIdx.x % 3 == 0 ? static_cast<const Shape*>(&c) : &s;
  out[threadIdx.x] = shape->area();
}

extern "C" __global__ void prints(int n) {
  const int t = threadIdx.x;
  if (t >= n) return;
  printf("plain\n");
  printf("%d %5d|%-4d|%04d %u %x %X %o %c%%\n", -t, t, t, t, 4000000000u + t, 255 + t, 255 + t, 8 + t, 'a' + t);
  printf("%lld %llu %lx %f %.3e %g %s\n", -5000000000ll - t, 10000000000000000000ull, 0xfedcba9876543210ul, 1.5 + t,
         12345.678 * (t + 1), 0.0001 * (t + 1), t % 2 ? "odd" : "even");
}

extern "C" __global__ void asserts(const int* x) { assert(x[threadIdx.x] >= 0); }

// European options by the formula of Black and Scholes.
extern "C" __global__ void black_scholes(const float* spot, const float* strike, const float* years, float* call,
                                         float* put, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  constexpr float kRate = 0.02f, kVolatility = 0.3f;
  const float root = kVolatility * sqrtf(years[i]);
  const float d1 = (logf(spot[i] / strike[i]) + (kRate + 0.5f * kVolatility * kVolatility) * years[i]) / root;
  const float discounted = strike[i] * expf(-kRate * years[i]);
  call[i] = spot[i] * normcdff(d1) - discounted * normcdff(d1 - root);
  put[i] = discounted * normcdff(root - d1) - spot[i] * normcdff(-d1);
}

extern "C" __global__ void mandelbrot(int* out, int width, int height, int most) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const double cr = -2 + 3.0 * x / width, ci = -1 + 2.0 * y / height;
  double zr = 0, zi = 0;
  int steps = 0;
  while (steps < most && zr * zr + zi * zi <= 4) {
    const double r = zr * zr - zi * zi + cr;
    zi = 2 * zr * zi + ci;
    zr = r;
    ++steps;
  }
  out[y * width + x] = steps;
}

// Philox4x32-10.
extern "C" __global__ void philox(uint4* out, unsigned key0, unsigned key1) {
  uint4 c = make_uint4(blockIdx.x * blockDim.x + threadIdx.x, 0, 0, 0);
  for (int round = 0; round < 10; ++round) {
    const unsigned hi0 = __umulhi(0xd2511f53u, c.x), lo0 = 0xd2511f53u * c.x;
    const unsigned hi1 = __umulhi(0xcd9e8d57u, c.z), lo1 = 0xcd9e8d57u * c.z;
    c = make_uint4(hi1 ^ c.y ^ key0, lo1, hi0 ^ c.w ^ key1, lo0);
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = c;
}

// 128-bit products and quotients, and a chain of carries.
extern "C" __global__ void wide_integers(const unsigned long long* a, const unsigned long long* b,
                                         unsigned long long* out) {
  const int t = threadIdx.x;
  const unsigned __int128 p = static_cast<unsigned __int128>(a[t]) * b[t] + a[t];
  out[4 * t] = static_cast<unsigned long long>(p);
  out[4 * t + 1] = static_cast<unsigned long long>(p >> 64);
  out[4 * t + 2] = a[t] / (b[t] | 1);
  out[4 * t + 3] = static_cast<unsigned long long>(static_cast<long long>(a[t]) % static_cast<long long>(b[t] | 1));
}

// Bytes in words.
extern "C" __global__ void packed_bytes(const unsigned* a, const unsigned* b, unsigned* out) {
  const unsigned x = a[threadIdx.x], y = b[threadIdx.x];
  unsigned* o = out + 10 * threadIdx.x;
  o[0] = __byte_perm(x, y, 0x3175);
  o[1] = __dp4a(static_cast<int>(x), static_cast<int>(y), 7);
  o[2] = __vadd4(x, y);
  o[3] = __vabsdiffu4(x, y);
  o[4] = __vmaxs4(x, y);
  o[5] = __vcmpgtu4(x, y);
  o[6] = __vavgu4(x, y);
  o[7] = __vsubss2(x, y);
  o[8] = __funnelshift_l(x, y, y & 63);
  o[9] = __brev(x) ^ __clz(y) ^ __popc(x) ^ __ffs(y);
}

// Sixteen bits and eight, there and back.
extern "C" __global__ void small_floats(const float* x, float* out) {
  const float v = x[threadIdx.x];
  float* o = out + 8 * threadIdx.x;
  o[0] = __half2float(__float2half(v));
  o[1] = __bfloat162float(__float2bfloat16(v));
  o[2] = static_cast<float>(__nv_fp8_e4m3(v));
  o[3] = static_cast<float>(__nv_fp8_e5m2(v));
  const __half2 h = __hfma2(__float2half2_rn(v), __float2half2_rn(0.5f), __floats2half2_rn(1.0f, -1.0f));
  o[4] = __low2float(h);
  o[5] = __high2float(h);
  o[6] = __bfloat162float(__hmul(__float2bfloat16(v), __float2bfloat16(3.0f)));
  o[7] = __half2float(hexp2(__float2half(0.125f * v)));
}
