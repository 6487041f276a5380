//! Writing small GGUF files for tests.

/// A file in parts, so that a test can spoil one of them.
#[derive(Default)]
pub(crate) struct Build {
    entries: Vec<u8>,
    entry_count: u64,
    tensors: Vec<u8>,
    tensor_count: u64,
    data: Vec<u8>,
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

impl Build {
    /// An entry: its type's number, and its bytes.
    pub(crate) fn entry(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.entries
            .extend([&text(key), &kind.to_le_bytes()[..], value].concat());
        self.entry_count += 1;
        self
    }

    pub(crate) fn u32(self, key: &str, value: u32) -> Self {
        self.entry(key, 4, &value.to_le_bytes())
    }

    pub(crate) fn bool(self, key: &str, value: bool) -> Self {
        self.entry(key, 7, &[value.into()])
    }

    pub(crate) fn str(self, key: &str, value: &str) -> Self {
        self.entry(key, 8, &text(value))
    }

    fn array(self, key: &str, kind: u32, count: usize, bytes: &[u8]) -> Self {
        let head = [&kind.to_le_bytes()[..], &(count as u64).to_le_bytes()].concat();
        self.entry(key, 9, &[&head, bytes].concat())
    }

    pub(crate) fn strings<T: AsRef<str>>(self, key: &str, values: &[T]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|v| text(v.as_ref())).collect();
        self.array(key, 8, values.len(), &bytes)
    }

    pub(crate) fn i32s(self, key: &str, values: &[i32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.array(key, 5, values.len(), &bytes)
    }

    pub(crate) fn f32s(self, key: &str, values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.array(key, 6, values.len(), &bytes)
    }

    /// A line of the table alone.
    pub(crate) fn line(mut self, name: &str, shape: &[u64], kind: u32, offset: u64) -> Self {
        self.tensors.extend(text(name));
        self.tensors.extend((shape.len() as u32).to_le_bytes());
        self.tensors
            .extend(shape.iter().flat_map(|d| d.to_le_bytes()));
        self.tensors.extend(kind.to_le_bytes());
        self.tensors.extend(offset.to_le_bytes());
        self.tensor_count += 1;
        self
    }

    pub(crate) fn tensor(mut self, name: &str, shape: &[u64], kind: u32, data: &[u8]) -> Self {
        self.data.resize(self.data.len().next_multiple_of(32), 0);
        let offset = self.data.len() as u64;
        self.data.extend(data);
        self.line(name, shape, kind, offset)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(self.tensor_count.to_le_bytes());
        bytes.extend(self.entry_count.to_le_bytes());
        bytes.extend(&self.entries);
        bytes.extend(&self.tensors);
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.extend(&self.data);
        bytes
    }
}
