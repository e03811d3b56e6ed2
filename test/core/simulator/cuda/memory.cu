// Kernels that move data: copies, transposes, stencils, gathers.
constexpr int kTile = 32;

// kPad columns more than the tile has: 1 makes column reads free of bank conflicts.
template <int kPad>
__device__ void transpose(const float* in, float* out, int rows, int cols) {
  __shared__ float tile[kTile][kTile + kPad];
  const int x = blockIdx.x * kTile + threadIdx.x, y = blockIdx.y * kTile + threadIdx.y;
  for (int j = 0; j < kTile; j += 8)
    if (x < cols && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * cols + x];
  __syncthreads();
  const int u = blockIdx.y * kTile + threadIdx.x, v = blockIdx.x * kTile + threadIdx.y;
  for (int j = 0; j < kTile; j += 8)
    if (u < rows && v + j < cols) out[(v + j) * rows + u] = tile[threadIdx.x][threadIdx.y + j];
}
extern "C" __global__ void transpose_padded(const float* in, float* out, int rows, int cols) {
  transpose<1>(in, out, rows, cols);
}
extern "C" __global__ void transpose_conflicting(const float* in, float* out, int rows, int cols) {
  transpose<0>(in, out, rows, cols);
}

// Columns are exchanged by the row's number: no padding and no conflicts.
extern "C" __global__ void transpose_swizzled(const float* in, float* out, int rows, int cols) {
  __shared__ float tile[kTile * kTile];
  const int x = blockIdx.x * kTile + threadIdx.x, y = blockIdx.y * kTile + threadIdx.y;
  for (int j = 0; j < kTile; j += 8) {
    const int row = threadIdx.y + j;
    if (x < cols && y + j < rows) tile[row * kTile + (threadIdx.x ^ row)] = in[(y + j) * cols + x];
  }
  __syncthreads();
  const int u = blockIdx.y * kTile + threadIdx.x, v = blockIdx.x * kTile + threadIdx.y;
  for (int j = 0; j < kTile; j += 8) {
    const int row = threadIdx.x;
    if (u < rows && v + j < cols) out[(v + j) * rows + u] = tile[row * kTile + ((threadIdx.y + j) ^ row)];
  }
}

extern "C" __global__ void copy_vector4(const float4* in, float4* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = in[i];
}

extern "C" __global__ void gather(const double* table, const long long* index, double* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __ldg(table + index[i]);
}

// Seven weights in constant memory, a halo in shared memory.
__constant__ float kWeights[7] = {0.0625f, 0.125f, 0.1875f, 0.25f, 0.1875f, 0.125f, 0.0625f};
extern "C" __global__ void stencil_1d(const float* in, float* out, int n) {
  __shared__ float s[256 + 6];
  const int i = blockIdx.x * 256 + threadIdx.x;
  const auto at = [&](int j) { return j >= 0 && j < n ? in[j] : 0.0f; };
  s[threadIdx.x + 3] = at(i);
  if (threadIdx.x < 3) {
    s[threadIdx.x] = at(i - 3);
    s[threadIdx.x + 259] = at(i + 256);
  }
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < 7; ++k) sum += kWeights[k] * s[threadIdx.x + k];
  if (i < n) out[i] = sum;
}

// Five points with clamped borders.
extern "C" __global__ void stencil_2d(const float* in, float* out, int height, int width) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const int l = max(x - 1, 0), r = min(x + 1, width - 1), u = max(y - 1, 0), d = min(y + 1, height - 1);
  out[y * width + x] =
      in[y * width + l] + in[y * width + r] + in[u * width + x] + in[d * width + x] - 4.0f * in[y * width + x];
}

// Walks along z with three planes in registers.
extern "C" __global__ void stencil_3d(const float* in, float* out, int nz, int ny, int nx) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
  const int plane = ny * nx, at = y * nx + x;
  float below = in[at], here = in[plane + at];
  for (int z = 1; z < nz - 1; ++z) {
    const float above = in[(z + 1) * plane + at];
    const float* p = in + z * plane + at;
    out[z * plane + at] = below + above + p[-1] + p[1] + p[-nx] + p[nx] - 6.0f * here;
    below = here;
    here = above;
  }
}

// Life on a torus with rows of bytes, four cells a thread.
extern "C" __global__ void life(const unsigned char* in, unsigned char* out, int height, int width) {
  const int x = 4 * (blockIdx.x * blockDim.x + threadIdx.x), y = blockIdx.y;
  if (x >= width) return;
  uchar4 result;
  unsigned char* cell = &result.x;
  for (int k = 0; k < 4; ++k) {
    int alive = 0;
    for (int dy = -1; dy <= 1; ++dy)
      for (int dx = -1; dx <= 1; ++dx)
        if (dx != 0 || dy != 0) alive += in[((y + dy + height) % height) * width + (x + k + dx + width) % width];
    cell[k] = alive == 3 || (alive == 2 && in[y * width + x + k]);
  }
  *reinterpret_cast<uchar4*>(out + y * width + x) = result;
}
